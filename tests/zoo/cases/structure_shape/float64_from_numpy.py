import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(0)
rng = np.random.default_rng(0)


class Positional(nn.Module):
    """Adds a fixed sine table to its input."""

    def __init__(self, length, width):
        super().__init__()
        phase = np.arange(length)[:, None] / 10.0 ** (np.arange(width) / width)
        self.register_buffer("table", torch.from_numpy(np.sin(phase)))  # BUG dtype-creep
        # FIX self.register_buffer("table", torch.from_numpy(np.sin(phase)).float())

    def forward(self, x):
        return x + self.table  # ALSO


embed = nn.Linear(4, 8)
position = Positional(6, 8)
weight = nn.Parameter(torch.randn(8) * 0.3)
opt = torch.optim.SGD([*embed.parameters(), weight], lr=0.05)
x = torch.from_numpy(rng.normal(size=(10, 6, 4))).float()
y = x.sum(dim=(1, 2)) * 0.2
for step in range(4):
    h = torch.tanh(position(embed(x)))
    out = (h * weight).sum(dim=(1, 2))
    loss = (out - y).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item(), loss.dtype)
