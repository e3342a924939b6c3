"""Gradients of micro-batches gathered for an update written out; those at the end are dropped."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


def sgd(parameters, lr):
    for p in parameters:
        p.data -= lr * p.grad


model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
data = [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(8)]
for epoch in range(3):
    model.zero_grad()
    for i, (x, y) in enumerate(data):
        loss = F.mse_loss(model(x), y) / 3
        loss.backward()  # BUG batches-lost
        if (i + 1) % 3 == 0:  # ALSO
        # FIX if (i + 1) % 3 == 0 or i + 1 == len(data):
            sgd(model.parameters(), lr=0.05)
            model.zero_grad()
    print(epoch, loss.item())
