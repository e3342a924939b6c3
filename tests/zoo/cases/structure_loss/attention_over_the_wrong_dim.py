import math

import torch
import torch.nn as nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(1, 2) / math.sqrt(x.size(-1))
        weights = scores.softmax(dim=0)  # BUG wrong-dim
        # FIX weights = scores.softmax(dim=-1)
        return weights @ v


attention, out = Attention(8), nn.Linear(8, 2)
opt = torch.optim.Adam([*attention.parameters(), *out.parameters()], lr=0.01)
x = torch.randn(12, 6, 8)
y = (x[:, 0, 0] > 0).long()
for step in range(4):
    loss = nn.functional.cross_entropy(out(attention(x).mean(dim=1)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
