"""A polynomial, Q = 3a³ − b², with a gradient passed to backward."""

import torch

a = torch.tensor([2.0, 3.0], requires_grad=True)
b = torch.tensor([6.0, 4.0], requires_grad=True)
Q = 3 * a**3 - b**2
Q.backward(gradient=torch.ones(2))

print(Q)
print(a.grad, 9 * a.detach() ** 2)
print(b.grad, -2 * b.detach())
