"""One cell, called a thousand times: the loop is one box, and its slowest iteration is named."""

import torch

torch.manual_seed(0)
weights = torch.full((16, 16), 0.05, requires_grad=True)
inputs = torch.randn(16, 8, requires_grad=True)
bias = torch.zeros(16, requires_grad=True)


def cell(x, h):
    return torch.tanh(inputs @ x + weights @ h + bias)


xs = torch.randn(1_000, 8)
h = torch.zeros(16)
for x in xs:
    h = cell(x, h)

loss = h.square().sum()
loss.backward()
print(f"loss {loss.item():.4f}, gradient {weights.grad.norm().item():.4f}")
