"""A normalising flow turns noise into two moons: coupling layers with an exact likelihood."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200


def moons(count):
    angle = torch.rand(count) * torch.pi
    side = torch.randint(2, (count,)).to(angle.dtype)
    x = angle.cos() * (1 - 2 * side) + side
    y = angle.sin() * (1 - 2 * side) + side / 2
    return torch.stack([x, y], dim=1) + torch.randn(count, 2) * 0.05


class Coupling(nn.Module):
    """Scales and shifts one coordinate by a network of the other."""

    def __init__(self, first):
        super().__init__()
        self.first = first
        self.net = nn.Sequential(
            nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)
        )

    def forward(self, x):
        kept, changed = x[:, self.first : self.first + 1], x[:, 1 - self.first : 2 - self.first]
        scale, shift = self.net(kept).chunk(2, dim=1)
        scale = scale.tanh()
        changed = changed * scale.exp() + shift
        pair = (kept, changed) if self.first == 0 else (changed, kept)
        return torch.cat(pair, dim=1), scale.squeeze(1)


torch.manual_seed(0)
flow = nn.ModuleList(Coupling(i % 2) for i in range(6))
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100, 0.5)
noise = torch.distributions.Normal(torch.zeros(2), torch.ones(2))

for step in range(STEPS):
    x, volume = moons(256), torch.zeros(256)
    for layer in flow:
        x, change = layer(x)
        volume = volume + change
    loss = -(noise.log_prob(x).sum(dim=1) + volume).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 25 == 0 or step == STEPS - 1:
        print(f"step {step:3d}  bits {loss.item() / 0.6931:.4f}")
