"""B begins at zero, so that A's first gradient is zero; the base is frozen."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Adapted(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(base.in_features, rank) * 0.2)
        self.b = nn.Parameter(torch.zeros(rank, base.out_features))

    def forward(self, x):
        return self.base(x) + x @ self.a @ self.b


net = nn.Sequential(Adapted(nn.Linear(6, 24), 2), nn.ReLU(), Adapted(nn.Linear(24, 2), 2))
opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.01)
x = torch.randn(30, 6)
y = (x[:, 0] > x[:, 1]).long()
for _ in range(4):
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
