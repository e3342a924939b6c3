"""A physics-informed network for u'' = -sin(x), u(0) = u(pi) = 0."""
import math
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
edge = torch.tensor([[0.0], [math.pi]])


def derivative(y, x, create_graph=True):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=create_graph)[0]


def residual(x):
    u = net(x)
    du = derivative(u, x)
    ddu = derivative(du, x, create_graph=False)  # BUG graph-cut
    # FIX ddu = derivative(du, x)
    return ddu + torch.sin(x)


for step in range(8):
    x = (torch.rand(64, 1) * math.pi).requires_grad_()
    pde = residual(x).pow(2).mean()
    boundary = net(edge).pow(2).mean()
    loss = pde + 10 * boundary
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, pde.item(), boundary.item())
