"""Watch activations of a conv net while it trains."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Monitor:
    def __init__(self, model):
        self.outputs = {}
        for name, m in model.named_modules():
            if isinstance(m, nn.Conv2d):
                self.outputs[name] = []
                m.register_forward_hook(self.make(name))

    def make(self, name):
        def hook(module, args, out):
            self.outputs[name].append(out)  # BUG history-kept
            # FIX self.outputs[name].append(out.detach().mean().item())

        return hook

    def means(self):
        return {k: float(sum(torch.as_tensor(o).mean() for o in v)) for k, v in self.outputs.items()}


net = nn.Sequential(
    nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 64, 4)
)
monitor = Monitor(net)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(8):
    x, y = torch.randn(8, 1, 12, 12), torch.randint(0, 4, (8,))
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
print(loss.item(), monitor.means())
