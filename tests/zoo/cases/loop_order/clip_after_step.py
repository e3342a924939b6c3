import torch
import torch.nn as nn
from torch.nn.utils import clip_grad_value_

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)


def update(loss):
    opt.zero_grad()
    loss.backward()
    # ADD clip_grad_value_(model.parameters(), 0.5)
    opt.step()
    clip_grad_value_(model.parameters(), 0.5)  # BUG clipped-at-the-wrong-time
    # FIX


for k in range(4):
    x = torch.randn(16, 3)
    y = 5 * x[:, :1] ** 2
    loss = nn.functional.mse_loss(model(x), y)
    update(loss)
    print(k, loss.item())
