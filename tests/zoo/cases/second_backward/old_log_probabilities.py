"""Proximal policy optimisation: a few epochs on the same batch."""
import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(0)

policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
states, advantages = torch.randn(20, 4), torch.randn(20)

dist = Categorical(logits=policy(states))  # ALSO
actions = dist.sample()
old = dist.log_prob(actions)  # BUG second-backward
# FIX old = dist.log_prob(actions).detach()

for epoch in range(3):
    new = Categorical(logits=policy(states)).log_prob(actions)
    ratio = (new - old).exp()  # ALSO
    clipped = ratio.clamp(0.8, 1.2)
    loss = -torch.min(ratio * advantages, clipped * advantages).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
