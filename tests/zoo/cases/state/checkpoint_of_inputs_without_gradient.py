"""Reentrant checkpointing of the first block: its input needs no gradient, so nobody gets one."""
import warnings

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

warnings.simplefilter("ignore")
torch.manual_seed(0)

stem = nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Linear(24, 24), nn.GELU())
head = nn.Linear(24, 2)
model = nn.ModuleList([stem, head])
opt = torch.optim.Adam(model.parameters(), lr=0.01)


def forward(x):
    h = checkpoint(stem, x, use_reentrant=True)  # BUG graph-cut
    # FIX h = checkpoint(stem, x, use_reentrant=False)
    return head(h)


x = torch.randn(20, 6)
y = (x[:, 0] > x[:, 1]).long()
for step in range(3):
    loss = nn.functional.cross_entropy(forward(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
