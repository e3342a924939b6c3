"""Averaged weights need their own batch statistics: a pass over the training set in train mode."""
import copy

import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 1))
average = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(32, 4)
y = x.sum(dim=1, keepdim=True)
for step in range(4):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    with torch.no_grad():
        for mean, p in zip(average.parameters(), net.parameters()):
            mean.lerp_(p, 1 / (step + 2))
average.train()
with torch.no_grad():
    for chunk in x.split(16):
        average(chunk)
average.eval()
with torch.no_grad():
    print(nn.functional.mse_loss(average(x), y).item())
