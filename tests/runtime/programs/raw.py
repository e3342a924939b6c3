import math

import torch

torch.manual_seed(1)
x = torch.linspace(-math.pi, math.pi, 200)
y = torch.sin(x)
a, b, c, d = [torch.randn((), requires_grad=True) for _ in range(4)]
for t in range(200):
    yp = a + b * x + c * x**2 + d * x**3
    loss = (yp - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for p in (a, b, c, d):
            p -= 1e-6 * p.grad
            p.grad = None
    if t % 50 == 49:
        print(t, round(loss.item(), 3))
print(a, round(b.item(), 5), c, d)
W = torch.randn(3, 3, requires_grad=True)
z = (W @ W.T).tril().sum() + W.diagonal().prod() + torch.einsum("ij,ij->", W, W)
(g,) = torch.autograd.grad(z, W, create_graph=True)
(h,) = torch.autograd.grad(g.pow(2).sum(), W)
print(g, h)
