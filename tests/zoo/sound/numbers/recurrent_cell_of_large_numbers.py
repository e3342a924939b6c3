"""A recurrent cell over prices: one weight is applied in each of many steps, the loss is a sum."""

import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.RNNCell(3, 16), nn.Linear(16, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
prices = torch.rand(20, 64, 3) * 1e4
for step in range(6):
    h, loss = torch.zeros(64, 16), 0.0
    for now in prices:
        h = cell(now / 1e4, h)
        loss = loss + ((head(h) - now.sum(1, keepdim=True)) ** 2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
