"""A module computes (w * x) squared; the mean is the loss."""

import torch
from torch import nn


class Square(nn.Module):
    """Multiply by a weight, then square."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        return (self.w * x) ** 2


model = Square()
loss = model(torch.tensor([0.5, 1.0, 1.5])).mean()
loss.backward()

print(model)
print(loss.item())
print(model.w.grad)
