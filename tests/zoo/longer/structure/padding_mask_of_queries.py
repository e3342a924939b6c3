"""An encoder of padded sentences; its padding mask is along the queries, not the keys."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, d=16, heads=2):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, padded):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).unbind(2)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        scores = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(padded[:, None, :, None], -1e9)  # BUG wrong-dim
        # FIX scores = scores.masked_fill(padded[:, None, None, :], -1e9)
        weights = F.dropout(scores.softmax(dim=-1), 0.1, self.training)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d))


class Encoder(nn.Module):
    def __init__(self, words=40, d=16, classes=3):
        super().__init__()
        self.embed, self.position = nn.Embedding(words, d), nn.Parameter(torch.zeros(10, d))
        self.blocks = nn.ModuleList(Attention(d) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.head = nn.Linear(d, classes)

    def forward(self, ids, padded):
        x = self.embed(ids) + self.position[: ids.shape[1]]
        for block, norm in zip(self.blocks, self.norms):
            x = x + block(norm(x), padded)
        seen = (~padded)[:, :, None].float()
        return self.head((x * seen).sum(1) / seen.sum(1))


model = Encoder()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
lengths = torch.tensor([10, 7, 4, 9, 6, 8])
padded = torch.arange(10)[None, :] >= lengths[:, None]
for step in range(4):
    ids = torch.randint(1, 40, (6, 10)).masked_fill(padded, 0)
    loss = F.cross_entropy(model(ids, padded), torch.tensor([0, 1, 2, 0, 1, 2]))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
