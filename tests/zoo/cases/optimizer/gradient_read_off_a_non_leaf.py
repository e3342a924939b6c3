"""An input is optimised until the network likes it."""
import torch
import torch.nn as nn

torch.manual_seed(0)

net = nn.Sequential(nn.Linear(16, 20), nn.Tanh(), nn.Linear(20, 4))
for p in net.parameters():
    p.requires_grad_(False)

image = torch.rand(16, requires_grad=True) * 0.5  # BUG not-a-leaf
# FIX image = (torch.rand(16) * 0.5).requires_grad_(True)
for step in range(4):
    score = net(image)[2]
    (-score).backward()
    grad = image.grad  # ALSO
    with torch.no_grad():
        image += 0.1 * grad / grad.norm()
    image.grad = None
    print(step, score.item())
