"""The best model is copied and trained on, while the optimizer holds the old one."""
import copy

import torch
import torch.nn as nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # ALSO
x = torch.randn(30, 4)
y = x[:, :1] * x[:, 1:2]


def one_step():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


for _ in range(2):
    print("warm-up", one_step())
best = copy.deepcopy(model)  # ALSO
for _ in range(2):
    print("further", one_step())
model = best  # BUG not-in-optimizer
# FIX model.load_state_dict(best.state_dict())
for _ in range(3):
    print("again", one_step())
