"""Gradient accumulation, the loss summed and divided by the size of the whole batch at once."""
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    x = torch.randn(24, 4)
    y = x[:, :1] + x[:, 1:2]
    opt.zero_grad()
    for xb, yb in zip(x.split(5), y.split(5)):
        loss = nn.functional.mse_loss(model(xb), yb, reduction="sum") / len(x)
        loss.backward()
    opt.step()
    print(step, loss.item())
