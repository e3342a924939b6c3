"""A hypernetwork that makes the weights of another."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Hyper(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(4))
        self.make = nn.Linear(4, 6 * 2 + 2)
        self.target = nn.Linear(6, 2)

    def forward(self, x):
        flat = self.make(self.embed)
        self.target.weight.data = flat[:12].view(2, 6)  # BUG graph-cut
        # FIX
        self.target.bias.data = flat[12:]  # ALSO
        # FIX
        return self.target(x)
        # FIX return F.linear(x, flat[:12].view(2, 6), flat[12:])


net = Hyper()
# ADD net.target = None
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x, y = torch.randn(32, 6), torch.randint(0, 2, (32,))
for step in range(5):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
