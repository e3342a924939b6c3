"""Newton's method by Hessian-vector products and conjugate gradients; autograd.functional beside it."""
# slow

import torch

torch.manual_seed(0)
A = torch.randn(6, 6, dtype=torch.float64)
A = A @ A.T + torch.eye(6, dtype=torch.float64)
b = torch.randn(6, dtype=torch.float64)


def f(x):
    return 0.5 * x @ A @ x - b @ x + 0.1 * torch.log1p(x.square()).sum()


x = torch.zeros(6, dtype=torch.float64, requires_grad=True)
for step in range(4):
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    d, r = torch.zeros_like(x), -g.detach()
    p = r.clone()
    for _ in range(6):
        (Hp,) = torch.autograd.grad(g, x, grad_outputs=p, retain_graph=True)
        alpha = r @ r / (p @ Hp)
        d = d + alpha * p
        fresh = r - alpha * Hp
        p = fresh + (fresh @ fresh) / (r @ r + 1e-30) * p
        r = fresh
    x = (x + d).detach().requires_grad_()
    print(step, f(x).item().hex(), g.norm().item().hex())
H = torch.autograd.functional.hessian(f, x.detach())
_, v = torch.autograd.functional.vhp(f, x.detach(), b)
print(H.norm().item().hex(), v.norm().item().hex())
