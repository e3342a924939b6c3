"""TD learning where yesterday's value estimate is part of today's target."""
import torch
import torch.nn as nn

torch.manual_seed(0)

value = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.SGD(value.parameters(), lr=0.02)
states = torch.randn(6, 4)
rewards = torch.rand(6)

previous = torch.zeros(1)
for s, r in zip(states, rewards):
    v = value(s)
    loss = (previous + r - 0.9 * v).pow(2).mean()  # ALSO
    opt.zero_grad()
    loss.backward()
    opt.step()
    previous = v  # BUG second-backward
    # FIX previous = v.detach()
    print(loss.item())
