"""Training without an optimizer, with gradients clipped too late."""

import torch

torch.manual_seed(0)

x = torch.randn(32, 3)
y = x @ torch.tensor([[2.0], [-1.0], [0.5]])
w = torch.zeros(3, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for epoch in range(4):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    # ADD torch.nn.utils.clip_grad_norm_([w, b], max_norm=0.5)
    with torch.no_grad():
        for p in (w, b):
            p -= 0.1 * p.grad  # ALSO
    torch.nn.utils.clip_grad_norm_([w, b], max_norm=0.5)  # BUG clipped-at-the-wrong-time
    # FIX norm = torch.cat([w.grad.flatten(), b.grad]).norm().item()
    w.grad, b.grad = None, None
    print(epoch, loss.item())
