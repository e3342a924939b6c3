"""Gradient-norm regularisation: the second graph hangs on `.grad`."""
import torch
import torch.nn as nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(4, 10), nn.Tanh(), nn.Linear(10, 1))
params = list(model.parameters())
optimizer = torch.optim.SGD(params, lr=0.05)
x = torch.randn(20, 4)
y = torch.sin(x).sum(dim=1, keepdim=True)

for step in range(4):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward(create_graph=True)  # BUG graph-retained
    # FIX grads = torch.autograd.grad(loss, params, create_graph=True)
    norm = sum(p.grad.pow(2).sum() for p in params)
    # FIX norm = sum(g.pow(2).sum() for g in grads)
    (0.01 * norm).backward()
    # FIX (loss + 0.01 * norm).backward()
    optimizer.step()
    print(step, loss.item(), norm.item())
