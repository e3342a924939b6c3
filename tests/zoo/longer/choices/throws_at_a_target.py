"""A thrower learns from a judge of throws, and keeps its throws varied by their log_prob."""

import torch
import torch.nn as nn
from torch.distributions import Normal

torch.manual_seed(0)


class Thrower(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, target):
        centre, spread = self.net(target).chunk(2, 1)
        aim = Normal(centre, nn.functional.softplus(spread) + 0.05)
        throw = aim.sample()  # BUG graph-cut
        # FIX throw = aim.rsample()
        surprise = aim.log_prob(throw).sum(1)
        return throw, surprise


judge = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
of_judge = torch.optim.Adam(judge.parameters(), lr=1e-2)
for _ in range(20):
    target, throw = torch.randn(64, 2), torch.randn(64, 2)
    score = judge(torch.cat([target, throw], 1))[:, 0]
    fit = (score + (target - throw).pow(2).sum(1)).pow(2).mean()
    of_judge.zero_grad()
    fit.backward()
    of_judge.step()

judge.requires_grad_(False)
thrower = Thrower()
adam = torch.optim.Adam(thrower.parameters(), lr=5e-3)
for _ in range(20):
    target = torch.randn(64, 2)
    throw, surprise = thrower(target)
    score = judge(torch.cat([target, throw], 1))[:, 0]
    loss = (0.1 * surprise - score).mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
print(loss.item())
