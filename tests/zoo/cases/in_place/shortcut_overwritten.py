"""Residual blocks of a small image network: norm, activation, convolution."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        shortcut = x
        y = F.leaky_relu(x, 0.1, inplace=True)  # BUG written-unseen
        # FIX y = F.leaky_relu(x, 0.1)
        y = self.conv(self.norm(y))
        return shortcut + y


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), Block(4), Block(4), nn.Flatten())
head = nn.Linear(4 * 25, 2)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.02)
for it in range(4):
    x = torch.rand(6, 1, 5, 5)
    y = (x.mean(dim=(1, 2, 3)) > 0.5).long()
    loss = F.cross_entropy(head(net(x)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
