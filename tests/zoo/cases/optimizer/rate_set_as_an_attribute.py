"""A learning rate that is to fall after some epochs, and does not."""

import torch
from torch import nn, optim

torch.manual_seed(3)


def lower(optimizer, epoch):
    if epoch >= 3:
        optimizer.lr = 0.05 * 0.5 ** (epoch - 2)  # BUG no-effect
        # FIX optimizer.param_groups[0]["lr"] = 0.05 * 0.5 ** (epoch - 2)


model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
adam = optim.Adam(model.parameters(), lr=0.05)
x = torch.randn(32, 4)
y = x.sum(1, keepdim=True)
for epoch in range(6):
    lower(adam, epoch)
    adam.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    adam.step()
    print(epoch, loss.item())
