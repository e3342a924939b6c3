"""A schedule that watches an accuracy."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.3)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max", patience=1, factor=0.5)
x = torch.randn(120, 4)
y = (x.sum(1) + torch.randn(120) > 0).long()
for epoch in range(8):
    for i in range(0, 120, 40):
        loss = nn.functional.cross_entropy(net(x[i : i + 40]), y[i : i + 40])
        opt.zero_grad()
        loss.backward()
        opt.step()
    acc = (net(x).argmax(1) == y).float().mean().item()
    sched.step(acc)
    print(epoch, acc, opt.param_groups[0]["lr"])
