import torch
import torch.nn as nn

torch.manual_seed(0)


def huber_root(err):
    """sqrt of large errors, the error itself for small ones"""
    size = err.abs()
    return torch.where(size > 0.1, torch.sqrt(size), size)  # BUG non-finite
    # FIX return torch.where(size > 0.1, torch.sqrt(size.clamp_min(0.1)), size)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(3, 16)
        self.l2 = nn.Linear(16, 1)

    def forward(self, x):
        return self.l2(torch.relu(self.l1(x)))


x = torch.randn(40, 3)
y = x[:, :1] * 2
observed = torch.ones(40, 1)
observed[::9] = 0.0
net = Regressor()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for epoch in range(4):
    opt.zero_grad()
    loss = huber_root((net(x) - y) * observed).mean()
    loss.backward()
    opt.step()
    print(epoch, loss.item(), net.l2.weight.grad.norm().item())
