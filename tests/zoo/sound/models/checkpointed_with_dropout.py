import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
blocks = nn.ModuleList(
    nn.Sequential(nn.Linear(10, 10), nn.Dropout(0.3), nn.Tanh()) for _ in range(3)
)
head = nn.Linear(10, 1)
opt = torch.optim.Adam([*blocks.parameters(), *head.parameters()], lr=0.01)
x = torch.randn(16, 10)
for _ in range(3):
    h = x
    for block in blocks:
        h = h + checkpoint(block, h, use_reentrant=False)
    loss = (head(h) - x[:, :1]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
