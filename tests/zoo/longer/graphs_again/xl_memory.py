"""Transformer-XL style language model with a segment memory."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, x, mem):
        ctx = x if mem is None else torch.cat([mem, x], 1)
        k, v = self.kv(ctx).chunk(2, -1)
        a = (self.q(x) @ k.transpose(1, 2) / x.size(-1) ** 0.5).softmax(-1)
        return x + self.o(a @ v)


class XL(nn.Module):
    def __init__(self, vocab=20, d=16, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(layers))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids, mems):
        x, new = self.emb(ids), []
        for block, mem in zip(self.blocks, mems):
            new.append(x)  # BUG second-backward
            # FIX new.append(x.detach())
            x = block(x, mem)
        return self.head(x), new


model = XL()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
stream = torch.randint(0, 20, (4, 60))
mems = [None, None]
for s in range(0, 50, 10):
    logits, mems = model(stream[:, s : s + 10], mems)  # ALSO
    loss = F.cross_entropy(logits.flatten(0, 1), stream[:, s + 1 : s + 11].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(s, loss.item())
