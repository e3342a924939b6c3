"""A queue of keys, as in momentum contrast."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Contrast(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, width))
        self.size = size
        self.queue = F.normalize(torch.randn(size, width), dim=1)

    def forward(self, a, b):
        q, k = F.normalize(self.encoder(a), dim=1), F.normalize(self.encoder(b), dim=1)
        positive = (q * k).sum(dim=1, keepdim=True)
        negative = q @ self.queue.detach().t()
        self.queue = torch.cat([k, self.queue])[: self.size]  # BUG history-kept
        # FIX self.queue = torch.cat([k.detach(), self.queue])[: self.size]
        return torch.cat([positive, negative], dim=1) / 0.2


model = Contrast(6, 32)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
target = torch.zeros(8, dtype=torch.long)
for step in range(5):
    x = torch.randn(8, 10)
    logits = model(x, x + 0.1 * torch.randn(8, 10))
    loss = F.cross_entropy(logits, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
