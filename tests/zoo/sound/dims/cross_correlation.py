"""Barlow Twins: vectors are normalized over the batch, and summed over it."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(5):
    x = torch.randn(32, 10)
    a, b = net(x + 0.1 * torch.randn_like(x)), net(x + 0.1 * torch.randn_like(x))
    a, b = F.normalize(a - a.mean(0), dim=0), F.normalize(b - b.mean(0), dim=0)
    c = a.t() @ b
    loss = (c - torch.eye(8)).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
