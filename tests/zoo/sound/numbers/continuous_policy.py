"""A sample is an input of the critic, and its log_prob is weighed."""

import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
log_std = nn.Parameter(torch.zeros(2))
opt = torch.optim.Adam([*actor.parameters(), *critic.parameters(), log_std], lr=3e-3)
for it in range(6):
    s = torch.randn(32, 3)
    dist = Normal(actor(s), log_std.exp())
    a = dist.sample()
    r = -(a - s[:, :2]).pow(2).sum(1)
    q = critic(torch.cat([s, a], 1)).squeeze(1)
    adv = (r - q).detach()
    logp = dist.log_prob(a).sum(1)
    loss = -(logp * adv).mean() + (q - r).pow(2).mean() - 0.01 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
