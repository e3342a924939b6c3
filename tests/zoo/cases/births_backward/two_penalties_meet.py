"""Two penalties on one layer; each alone is finite."""
import torch
from torch import nn

torch.manual_seed(0)

layer = nn.Linear(4, 4)
opt = torch.optim.SGD(layer.parameters(), lr=0.1)
x = torch.rand(6, 4) + 1.0


def barrier(h, strength):
    return (h * strength).mean()


for step in range(2):
    opt.zero_grad()
    h = torch.sigmoid(layer(x))  # ALSO
    upper = barrier(h, 9e39 / 2)  # BUG non-finite
    # FIX upper = barrier(h, 0.5)
    lower = barrier(h, 9e39 / 2)  # ALSO
    # FIX lower = barrier((1 - h) ** 2, 0.5)
    loss = upper + lower
    loss.backward()
    opt.step()
    print(step, loss.item())
