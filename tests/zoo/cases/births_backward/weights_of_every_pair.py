"""Importance weights for samples of a regression."""
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(48, 5)
y = x[:, 0] * 2 - x[:, 1]
importance = torch.rand(48, 1) + 0.5

net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)


def weighted(pred, target, weight):
    each = (pred - target).pow(2)
    return (weight * each).mean()  # BUG broadcast
    # FIX return (weight.squeeze(1) * each).mean()


for epoch in range(4):
    for i in range(0, 48, 16):
        part = slice(i, i + 16)
        pred = net(x[part]).squeeze(-1)
        loss = weighted(pred, y[part], importance[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
