"""The same network scripted, traced, exported and symbolically traced by fx."""
# slow

import warnings

import torch

warnings.simplefilter("ignore")
torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


net, x = Net(), torch.randn(5, 4)
kinds = {
    "plain": net,
    "script": torch.jit.script(net),
    "trace": torch.jit.trace(net, x),
    "fx": torch.fx.symbolic_trace(net),
    "export": torch.export.export(net, (x,)).module(),
}
for name, each in kinds.items():
    net.zero_grad()
    each(x).square().sum().backward()
    grads = [p.grad for p in each.parameters()]
    print(name, *(grad.norm().item().hex() for grad in grads))
    each.zero_grad()
