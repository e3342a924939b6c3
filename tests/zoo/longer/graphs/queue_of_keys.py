"""MoCo with a queue of keys."""
import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class MoCo(nn.Module):
    def __init__(self, dim=8, size=32):
        super().__init__()
        self.q = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, dim))
        self.k = copy.deepcopy(self.q)
        for p in self.k.parameters():
            p.requires_grad = False
        self.queue = F.normalize(torch.randn(size, dim), dim=1)

    def forward(self, a, b):
        q, k = F.normalize(self.q(a), dim=1), F.normalize(self.q(b), dim=1)  # ALSO
        # FIX q, k = F.normalize(self.q(a), dim=1), F.normalize(self.k(b), dim=1)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.t()
        self.queue = torch.cat([k, self.queue])[:32]  # BUG second-backward
        for pq, pk in zip(self.q.parameters(), self.k.parameters()):
            pk.data.mul_(0.99).add_(pq.data, alpha=0.01)
        return torch.cat([pos, neg], 1) / 0.2


model = MoCo()
opt = torch.optim.SGD(model.q.parameters(), lr=0.05)
for step in range(4):
    x = torch.randn(8, 10)
    logits = model(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
    loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
