"""A physics-informed network: u'' + u = 0 with u(0) = 0 and u'(0) = 1, whose solution is sin."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 300

torch.manual_seed(0)
u = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(u.parameters(), lr=5e-3)
zero = torch.zeros(1, 1, requires_grad=True)


def slope(value, at):
    return torch.autograd.grad(value.sum(), at, create_graph=True)[0]


for step in range(STEPS):
    x = (torch.rand(64, 1) * torch.pi).requires_grad_()
    value = u(x)
    first = slope(value, x)
    second = slope(first, x)
    start = u(zero)
    equation = (second + value).square().mean()
    beginning = start.square().mean() + (slope(start, zero) - 1).square().mean()
    loss = equation + beginning
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0 or step == STEPS - 1:
        print(f"step {step:3d}  loss {loss.item():.6f}")

with torch.no_grad():
    x = torch.linspace(0, torch.pi, 5).unsqueeze(1)
    for at, found, wanted in zip(x, u(x), x.sin()):
        print(f"u({at.item():.2f}) = {found.item():+.3f}   sin = {wanted.item():+.3f}")
