"""Now and then a block is left out, and its parameters get no gradient in that step."""
import random

import torch
import torch.nn as nn

torch.manual_seed(0)
random.seed(3)
blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(4))
head = nn.Linear(8, 2)
opt = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.05)
x = torch.randn(20, 8)
y = (x[:, 0] > 0).long()
for _ in range(6):
    h = x
    for block in blocks:
        if random.random() > 0.3:
            h = h + block(h)
    loss = nn.functional.cross_entropy(head(h), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
