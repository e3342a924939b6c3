"""Samples that are weighed: by a reward, by the return of a whole run, and by a teacher's own."""

import torch
import torch.nn as nn
from torch.distributions import Normal

torch.manual_seed(0)

bandit, student, teacher = nn.Linear(3, 2), nn.Linear(3, 2), nn.Linear(3, 2)
adam = torch.optim.Adam([*bandit.parameters(), *student.parameters()], lr=1e-2)
slow = torch.optim.SGD(teacher.parameters(), lr=1e-3)
for run in range(6):
    seen = torch.randn(16, 3)

    mean, spread = bandit(seen)[:, 0], bandit(seen)[:, 1].exp()
    policy = Normal(mean, spread)
    action = policy.sample()
    chance = policy.log_prob(action)
    reward = -(action - seen[:, 0]).pow(2)
    of_each = -(chance * (reward - reward.mean())).mean()

    whole = policy.sample()
    logged = policy.log_prob(whole).sum()
    gained = -(whole - seen[:, 0]).abs().sum().item()
    of_all = -logged * gained / 1000

    guide = Normal(teacher(seen), torch.ones(16, 2))
    answer = guide.sample()
    pupil = Normal(student(seen), torch.ones(16, 2))
    likely = pupil.log_prob(answer).sum(1)
    copied = -likely.mean() + (guide.loc - seen[:, :2]).pow(2).mean()

    adam.zero_grad()
    slow.zero_grad()
    (of_each + of_all + copied).backward()
    adam.step()
    slow.step()
