"""A bending beam: the residual of its equation is in newtons, and its weights are large."""

import torch
from torch import nn

torch.manual_seed(0)
STIFFNESS, LOAD = 2.1e5, 1e4
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(6):
    x = torch.rand(256, 1, requires_grad=True)
    u = net(x)
    (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (bending,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    residual = STIFFNESS * bending - LOAD
    loss = (residual**2).sum() + (u[:4] ** 2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
