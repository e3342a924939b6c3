"""Two tasks weighted by learned uncertainty (Kendall and Gal)."""
import torch
from torch import nn

torch.manual_seed(0)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 32), nn.ReLU())
        self.depth = nn.Linear(32, 1)
        self.segment = nn.Linear(32, 4)

    def forward(self, x):
        h = self.trunk(x)
        return self.depth(h).squeeze(1), self.segment(h)


class Weighting:
    def __init__(self, tasks):
        self.log_vars = [torch.zeros((), requires_grad=True) for _ in range(tasks)]  # ALSO

    def __call__(self, *losses):
        return sum(torch.exp(-s) * l + s for s, l in zip(self.log_vars, losses))


net, weighting = TwoHeads(), Weighting(2)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)  # BUG not-in-optimizer
# FIX optimizer = torch.optim.Adam([*net.parameters(), *weighting.log_vars], lr=1e-2)
x = torch.randn(64, 6)
depth, segment = x.sum(1), torch.randint(0, 4, (64,))
for step in range(8):
    d, s = net(x)
    loss = weighting(nn.functional.l1_loss(d, depth), nn.functional.cross_entropy(s, segment))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), [float(v.detach()) for v in weighting.log_vars])
