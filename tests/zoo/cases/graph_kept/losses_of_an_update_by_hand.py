"""No optimizer, and a list of losses with all their graphs."""

import torch

torch.manual_seed(0)

x, y = torch.randn(32, 3), torch.randn(32, 1)
w = torch.zeros(3, 1, requires_grad=True)
history = []
for epoch in range(12):
    loss = ((x @ w - y) ** 2).mean()
    history.append(loss)  # BUG history-kept
    # FIX history.append(loss.item())
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
print(sum(history) / len(history))
