import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class MoCo(nn.Module):
    def __init__(self, d=8, k=32):
        super().__init__()
        self.q = nn.Linear(10, d)
        self.k = nn.Linear(10, d)
        self.k.load_state_dict(self.q.state_dict())
        self.queue = [F.normalize(torch.randn(d), dim=0) for _ in range(k)]

    def forward(self, a, b):
        q, k = F.normalize(self.q(a), dim=1), F.normalize(self.k(b), dim=1)
        neg = q @ torch.stack(self.queue).t()
        pos = (q * k).sum(1, keepdim=True)
        for row in k:
            self.queue.pop(0)
            self.queue.append(row)  # BUG second-backward
            # FIX self.queue.append(row.detach())
        return torch.cat([pos, neg], 1) / 0.2


model = MoCo()
opt = torch.optim.SGD(model.q.parameters(), lr=0.05)
for step in range(5):
    x = torch.randn(8, 10)
    logits = model(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
    loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for pk, pq in zip(model.k.parameters(), model.q.parameters()):
            pk.mul_(0.99).add_(pq, alpha=0.01)
    print(step, loss.item())
