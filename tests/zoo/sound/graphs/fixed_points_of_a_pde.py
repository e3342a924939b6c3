"""Points that ask for gradients and are used in every step."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
k = nn.Parameter(torch.tensor(0.5))
opt = torch.optim.Adam([*net.parameters(), k], lr=1e-2)
x = torch.linspace(0, 1, 20)[:, None].requires_grad_()
x0 = torch.zeros(1, 1, requires_grad=True)
for step in range(8):
    u = net(x)
    du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    residual = (du + k * u).pow(2).mean()
    initial = (net(x0) - 1).pow(2).mean()
    loss = residual + initial
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
