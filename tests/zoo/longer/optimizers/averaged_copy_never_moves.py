"""A momentum encoder whose update rebinds the loop's variable."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class MoCo(nn.Module):
    def __init__(self, dim=8, m=0.9, K=32):
        super().__init__()
        self.encoder_q = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, dim))
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.m, self.pointer = m, 0
        self.register_buffer("queue", F.normalize(torch.randn(K, dim), dim=1))

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k = k * self.m + q * (1.0 - self.m)  # BUG no-effect
            # FIX k.mul_(self.m).add_(q, alpha=1.0 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = len(keys)
        self.queue[self.pointer : self.pointer + n] = keys
        self.pointer = (self.pointer + n) % len(self.queue)

    def forward(self, a, b):
        q = F.normalize(self.encoder_q(a), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.encoder_k(b), dim=1)
        positive = (q * k).sum(dim=1, keepdim=True)
        negative = q @ self.queue.clone().t()
        logits = torch.cat([positive, negative], dim=1) / 0.2
        self.enqueue(k)
        return F.cross_entropy(logits, torch.zeros(len(a), dtype=torch.long))


model = MoCo()
optimizer = torch.optim.SGD(model.encoder_q.parameters(), lr=0.05)
data = torch.randn(32, 12)
for epoch in range(3):
    for x in data.split(8):
        loss = model(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
