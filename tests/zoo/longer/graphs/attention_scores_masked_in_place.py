"""A small transformer layer that masks what the softmax has saved."""

import math

import torch
import torch.nn as nn

torch.manual_seed(0)


class SelfAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.scale = heads, 1 / math.sqrt(d // heads)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x, keep):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1)
        weights *= keep[:, None, None, :]  # BUG written-in-place
        # FIX weights = weights * keep[:, None, None, :]
        out = (weights @ v).transpose(1, 2).reshape(b, n, d)
        return self.proj(out)


class Layer(nn.Module):
    def __init__(self, d=16, heads=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = SelfAttention(d, heads)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, keep):
        x = x + self.attn(self.norm1(x), keep)
        return x + self.mlp(self.norm2(x))


model = nn.ModuleList([Layer(), Layer()])
head = nn.Linear(16, 1)
opt = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-3)
x = torch.randn(6, 5, 16)
keep = (torch.rand(6, 5) > 0.2).float()
y = x.mean(dim=(1, 2))
for step in range(2):
    h = x
    for layer in model:
        h = layer(h, keep)
    loss = (head(h.mean(dim=1)).squeeze(-1) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
