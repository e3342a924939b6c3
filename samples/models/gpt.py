"""A small GPT learns to copy: the second half of each line repeats the first."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
VOCABULARY, LENGTH, WIDTH, WIDE, HEADS, DEPTH = 16, 8, 64, 256, 4, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDE), nn.GELU(), nn.Linear(WIDE, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.zeros(2 * LENGTH, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight  # tied
        nn.init.normal_(self.tokens.weight, std=0.1)

    def forward(self, ids):
        x = self.tokens(ids) + self.places[: ids.shape[1]]
        return self.head(self.norm(self.blocks(x)))


torch.manual_seed(0)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
for step in range(STEPS):
    half = torch.randint(VOCABULARY, (32, LENGTH))
    line = torch.cat([half, half], dim=1)
    logits = model(line[:, :-1])[:, LENGTH - 1 :]  # only what can be known is asked for
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), line[:, LENGTH:].reshape(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    if step % 25 == 0 or step == STEPS - 1:
        right = (logits.argmax(-1) == line[:, LENGTH:]).float().mean().item()
        print(f"step {step:3d}  loss {loss.item():.4f}  right {right:.2f}")
