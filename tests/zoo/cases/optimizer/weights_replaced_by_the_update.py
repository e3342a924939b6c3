"""Gradient descent by hand."""
import torch

torch.manual_seed(0)

x = torch.randn(40, 3)
y = x @ torch.tensor([1.0, 2.0, -1.0]) + 0.5
w = torch.zeros(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)

for epoch in range(4):
    loss = (x @ w + b - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w = w - 0.1 * w.grad  # BUG replaced
        # FIX w -= 0.1 * w.grad
        b = b - 0.1 * b.grad  # ALSO
        # FIX b -= 0.1 * b.grad
    # ADD w.grad = b.grad = None
    print(epoch, loss.item())
