"""Random features: the projection is drawn by a generator of its own, alike in each forward."""

import torch
from torch import nn

torch.manual_seed(0)


def projection(rows, columns):
    """The same matrix each time, so that it needs no place in a checkpoint."""
    generator = torch.Generator().manual_seed(13)
    return torch.randn(rows, columns, generator=generator) / rows**0.5


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(torch.cos(x @ projection(4, 16)))


model = Features()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(32, 4)
y = x.sum(dim=1, keepdim=True)
for step in range(5):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
