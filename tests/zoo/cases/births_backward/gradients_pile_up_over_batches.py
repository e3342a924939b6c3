"""Gradient accumulation with a static loss scale, over six micro-batches."""
import torch

torch.manual_seed(0)

w = torch.full((6,), 0.1, requires_grad=True)
data = torch.rand(6, 3, 6) + 0.5
scale = 2.0 ** 126  # ALSO
# FIX scale = 2.0 ** 10

for micro in data:
    out = (micro * w).sum(dim=1).mean()
    loss = out * scale  # ALSO
    # FIX loss = out * scale / len(data)
    loss.backward()  # BUG non-finite
with torch.no_grad():
    w -= 1e-3 * w.grad / scale
print(w)
