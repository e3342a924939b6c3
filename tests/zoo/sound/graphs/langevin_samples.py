"""Gradients by the input move it, with no graph."""

import torch
from torch import nn

torch.manual_seed(0)
energy = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(energy.parameters(), lr=1e-3)
for it in range(4):
    real = torch.randn(32, 2) * 0.3 + 1
    x = torch.randn(32, 2)
    for _ in range(5):
        x = x.detach().requires_grad_()
        g = torch.autograd.grad(energy(x).sum(), x)[0]
        x = x - 0.1 * g + 0.01 * torch.randn_like(x)
    x = x.detach()
    e_real, e_fake = energy(real).mean(), energy(x).mean()
    reg = 0.1 * (energy(real).pow(2).mean() + energy(x).pow(2).mean())
    loss = e_real - e_fake + reg
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
