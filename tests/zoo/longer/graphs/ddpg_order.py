"""DDPG-like update, both losses computed up front."""
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(2)


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.ReLU(), nn.Linear(32, o))


actor, critic = mlp(3, 1), mlp(4, 1)
actor_t, critic_t = copy.deepcopy(actor), copy.deepcopy(critic)
pi_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
q_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)


def q(net, s, a):
    return net(torch.cat([s, a], dim=-1))


def soft_update(net, target, tau=0.01):
    with torch.no_grad():
        for p, pt in zip(net.parameters(), target.parameters()):
            pt.mul_(1 - tau).add_(tau * p)


for step in range(3):
    s, s2 = torch.randn(16, 3), torch.randn(16, 3)
    a, r = torch.rand(16, 1), torch.randn(16, 1)
    with torch.no_grad():
        backup = r + 0.99 * q(critic_t, s2, actor_t(s2))
    q_loss = F.mse_loss(q(critic, s, a), backup)
    pi_loss = -q(critic, s, actor(s)).mean()
    # FIX

    q_opt.zero_grad()
    q_loss.backward()
    q_opt.step()  # BUG written-in-place
    # ADD pi_loss = -q(critic, s, actor(s)).mean()

    pi_opt.zero_grad()
    pi_loss.backward()
    pi_opt.step()
    soft_update(actor, actor_t)
    soft_update(critic, critic_t)
