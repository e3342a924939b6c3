"""Linear regression written out, its gradients cleared a few lines too early."""

import torch

torch.manual_seed(0)

x = torch.randn(32, 3)
y = x @ torch.tensor([[2.0], [-1.0], [0.5]]) + 0.3
w = torch.zeros(3, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for epoch in range(5):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    for p in (w, b):
        p.grad.zero_()  # BUG cleared-too-early
        # FIX pass
    with torch.no_grad():
        for p in (w, b):
            p -= 0.1 * p.grad  # ALSO
    # ADD w.grad, b.grad = None, None
    print(epoch, loss.item())
