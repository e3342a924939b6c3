"""Median regression; the network gives a column."""
import torch
import torch.nn as nn

torch.manual_seed(0)


def pinball(pred, y, q=0.5):
    e = y - pred  # BUG broadcast
    # FIX e = y - pred.squeeze(-1)
    return torch.max(q * e, (q - 1) * e).mean()


net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
X = torch.randn(256, 6)
y = X @ torch.randn(6) + 0.2 * torch.randn(256)
for epoch in range(3):
    for idx in torch.randperm(256).split(64):
        loss = pinball(net(X[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
