"""Two networks: one learns to draw points on a ring, the other to tell them from real ones."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 300


def ring(count):
    angle = torch.rand(count) * 2 * torch.pi
    return torch.stack([angle.cos(), angle.sin()], dim=1) + torch.randn(count, 2) * 0.05


torch.manual_seed(0)
generator = nn.Sequential(
    nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
)
critic = nn.Sequential(
    nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)
)
draws = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
judges = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
real, fake = torch.ones(64, 1), torch.zeros(64, 1)

for step in range(STEPS):
    drawn = generator(torch.randn(64, 8))
    judged = F.binary_cross_entropy_with_logits(critic(ring(64)), real)
    judged = judged + F.binary_cross_entropy_with_logits(critic(drawn.detach()), fake)
    judges.zero_grad()
    judged.backward()
    judges.step()

    fooled = F.binary_cross_entropy_with_logits(critic(drawn), real)
    draws.zero_grad()
    fooled.backward()
    draws.step()
    if step % 50 == 0 or step == STEPS - 1:
        radius = drawn.detach().norm(dim=1)
        print(
            f"step {step:3d}  critic {judged.item():.4f}  generator {fooled.item():.4f}  "
            f"radius {radius.mean().item():.2f} ± {radius.std().item():.2f}"
        )
