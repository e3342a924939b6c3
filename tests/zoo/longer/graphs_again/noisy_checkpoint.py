import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class NoisyBlock(nn.Module):
    """Residual block with gaussian noise as regulariser."""

    def __init__(self, d, std=0.3):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, d), nn.Tanh(), nn.Linear(d, d))
        self.std = std

    def forward(self, x):
        if self.training:
            x = x * (1 + self.std * torch.randn_like(x))
        return self.f(x)


class Net(nn.Module):
    def __init__(self, d=16, n=3):
        super().__init__()
        self.inp = nn.Linear(8, d)
        self.blocks = nn.ModuleList(NoisyBlock(d) for _ in range(n))
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            h = h + checkpoint(block, h, use_reentrant=False, preserve_rng_state=False)  # BUG recompute-differs
            # FIX h = h + checkpoint(block, h, use_reentrant=False)
        return self.out(h)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(5):
    x = torch.randn(32, 8)
    y = x.prod(1, keepdim=True).tanh()
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
