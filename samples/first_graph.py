"""A first graph: a sum, two products, a mean."""

import torch

x = torch.ones(2, 2, requires_grad=True)
y = x + 2
z = y * y * 3
out = z.mean()
out.backward()

print(out)
print(x.grad)
