"""Self-attention in several heads; the heads are put back side by side at the end."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)


class SelfAttention(nn.Module):
    def __init__(self, width=32, heads=2):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.back = nn.Linear(width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.project(x).split(c, dim=2)
        q, k, v = (
            each.view(n, t, self.heads, c // self.heads).transpose(1, 2) for each in (q, k, v)
        )
        weights = F.softmax(q @ k.transpose(2, 3) / (c // self.heads) ** 0.5, dim=-1)
        y = weights @ v
        y = y.contiguous().view(n, t, c)  # BUG mixed-up-elements
        # FIX y = y.transpose(1, 2).contiguous().view(n, t, c)
        return self.back(y)


net = nn.Sequential(nn.Embedding(11, 32), SelfAttention(), nn.Linear(32, 11))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
for it in range(4):
    tokens = torch.randint(0, 11, (3, 8))
    loss = F.cross_entropy(net(tokens).flatten(0, 1), tokens.flip(1).flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
