"""A gated feed-forward part, with one name typed for another."""
import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.value = nn.Linear(width, hidden)
        self.gate = nn.Linear(width, hidden)  # ALSO
        self.out = nn.Linear(hidden, width)

    def forward(self, x):
        value = self.value(x)
        gate = torch.sigmoid(self.value(x))  # BUG unused
        # FIX gate = torch.sigmoid(self.gate(x))
        return x + self.out(value * gate)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Gated(6, 14) for _ in range(2))
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return self.head(x)


torch.manual_seed(0)
model = Regressor()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
points = torch.randn(40, 6)
values = points[:, :1] * points[:, 1:2]
for epoch in range(3):
    for start in range(0, 40, 20):
        loss = (model(points[start : start + 20]) - values[start : start + 20]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
