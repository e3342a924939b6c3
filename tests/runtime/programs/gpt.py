import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(2)


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln1 = nn.LayerNorm(d)
        self.ln2 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.h = h
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, V=11, d=32, n=2):
        super().__init__()
        self.tok = nn.Embedding(V, d)
        self.pos = nn.Embedding(16, d)
        self.blocks = nn.ModuleList([Block(d, 4) for _ in range(n)])
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, V, bias=False)
        self.head.weight = self.tok.weight
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, 0.0, 0.02)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.zeros_(m.bias)

    def forward(self, idx):
        T = idx.size(1)
        x = self.tok(idx) + self.pos(torch.arange(T))
        for b in self.blocks:
            x = b(x)
        return self.head(self.ln(x))


m = GPT()
print(sum(p.numel() for p in m.parameters()), len(list(m.named_parameters())))
opt = torch.optim.AdamW(m.parameters(), lr=3e-3, weight_decay=0.1)
data = torch.arange(200) % 11
for step in range(30):
    ix = torch.randint(0, 200 - 17, (8,))
    xb = torch.stack([data[i : i + 16] for i in ix])
    yb = torch.stack([data[i + 1 : i + 17] for i in ix])
    logits = m(xb)
    loss = F.cross_entropy(logits.view(-1, 11), yb.view(-1))
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.4f}")
ctx = torch.zeros(1, 1, dtype=torch.long)
for _ in range(12):
    nxt = m(ctx[:, -16:])[:, -1].argmax(-1, keepdim=True)
    ctx = torch.cat([ctx, nxt], 1)
print(ctx.tolist())
