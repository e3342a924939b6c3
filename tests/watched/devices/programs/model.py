"""A model that is in part on the CPU and in part on the device, with copies in both directions."""

import torch
from device import DEVICE, end

torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before = torch.nn.Linear(4, 4)
        self.inside = torch.nn.Linear(4, 4).to(DEVICE)
        self.after = torch.nn.Linear(4, 2)

    def forward(self, x):
        here = torch.tanh(self.before(x))
        there = torch.tanh(self.inside(here.to(DEVICE)))
        return self.after(there.cpu() + here), there.pow(2).mean()


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(8, 4)
for _ in range(4):
    optimizer.zero_grad()
    y, penalty = net(x)
    loss = y.pow(2).mean() + 0.1 * penalty.cpu()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}", [f"{p.grad.sum().item():.4f}" for p in net.parameters()])
end()
