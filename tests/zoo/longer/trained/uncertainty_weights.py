"""Multi-task learning with homoscedastic uncertainty (Kendall et al.)."""
import torch
import torch.nn as nn


class MultiTaskLoss(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(n))

    def forward(self, *losses):
        total = 0
        for s, loss in zip(self.log_vars, losses):
            total = total + torch.exp(-s) * loss + s
        return total


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(5, 30), nn.ReLU())
        self.reg, self.cls = nn.Linear(30, 1), nn.Linear(30, 3)

    def forward(self, x):
        h = self.shared(x)
        return self.reg(h).squeeze(1), self.cls(h)


torch.manual_seed(0)
model, weighting = TwoHeads(), MultiTaskLoss(2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # BUG not-in-optimizer
# FIX optimizer = torch.optim.Adam([*model.parameters(), *weighting.parameters()], lr=0.01)
for epoch in range(5):
    x = torch.randn(64, 5)
    r, c = model(x)
    loss = weighting(nn.functional.l1_loss(r, x.sum(1)), nn.functional.cross_entropy(c, x[:, :3].argmax(1)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
