"""Contrastive learning with the NT-Xent loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.projector = nn.Linear(32, 16)

    def forward(self, x):
        return self.projector(self.backbone(x))


def augment(x):
    return x + 0.2 * torch.randn_like(x)


def nt_xent(za, zb, temperature=0.5):
    z = torch.cat([za, zb])
    z = F.normalize(z, dim=0)  # BUG wrong-dim
    # FIX z = F.normalize(z, dim=1)
    n = za.size(0)
    sim = z @ z.t() / temperature
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
    targets = torch.cat([torch.arange(n, 2 * n), torch.arange(0, n)])
    return F.cross_entropy(sim, targets)


encoder = Encoder()
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05, momentum=0.9)
data = torch.randn(96, 20)
for epoch in range(3):
    for x in data.split(24):
        loss = nt_xent(encoder(augment(x)), encoder(augment(x)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
