"""Checkpointing without the random state: the recomputed mask is another one."""
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.drop = nn.Dropout(0.4)

    def forward(self, x):
        return x + self.drop(torch.tanh(self.fc(x)))  # ALSO


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(12) for _ in range(2))
        self.head = nn.Linear(12, 1)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)  # BUG recompute-differs
            # FIX x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(16, 12)
y = x.mean(dim=1, keepdim=True)
for step in range(3):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
