"""A network with three layers learns to separate two moons of points, with SGD."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
angle = torch.rand(128) * 3.1416
side = (torch.arange(128) % 2).float()
points = torch.stack(
    [torch.cos(angle) * (1 - 2 * side) + side, torch.sin(angle) * (1 - 2 * side) + side / 2], dim=1
)
points = points + torch.randn(128, 2) * 0.1
labels = side.long()

model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)

for step in range(20):
    loss = F.cross_entropy(model(points), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0 or step == 19:
        right = (model(points).argmax(dim=1) == labels).float().mean().item()
        print(f"step {step:2d}  loss {loss.item():.4f}  right {right:.2f}")
