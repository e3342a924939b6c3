"""A gradient of a gradient: the derivative of x³, its derivative, and a penalty on it."""

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
cube = (x * x * x).sum()
(slope,) = torch.autograd.grad(cube, x, create_graph=True)
penalty = (slope - 3).pow(2).mean()
penalty.backward()

print("slope", slope.detach())
print("penalty", penalty.item())
print("x.grad", x.grad)
