"""A network for the sag of a rod, y'' = load: its bending is a number for the optimizer."""

import torch
from torch import nn

torch.manual_seed(0)
rod = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
adam = torch.optim.Adam(rod.parameters(), lr=5e-3)
ends = torch.tensor([[0.0], [1.0]])


def sag_and_force(place):
    sag = rod(place)
    (slope,) = torch.autograd.grad(sag.sum(), place, create_graph=True)
    bending = torch.autograd.grad(slope.sum(), place, retain_graph=True)[0]  # BUG graph-cut
    # FIX bending = torch.autograd.grad(slope.sum(), place, create_graph=True)[0]
    force = bending - 0.3 * sag
    return sag, force


for _ in range(12):
    place = torch.rand(32, 1, requires_grad=True)
    sag, force = sag_and_force(place)
    off = (force - 1).pow(2).mean()
    held = rod(ends).pow(2).mean()
    loss = off + 5 * held
    adam.zero_grad()
    loss.backward()
    adam.step()
print(loss.item())
