import torch
import torch.nn as nn
from torch.distributions import Normal

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self, obs=5, act=3):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act))
        self.log_std = nn.Parameter(torch.zeros(act))
        self.value = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, 1))

    def dist(self, obs):
        return Normal(self.mu(obs), self.log_std.exp())


policy = Policy()
opt = torch.optim.Adam(policy.parameters(), lr=3e-4)
for iteration in range(3):
    obs = torch.randn(64, 5)
    with torch.no_grad():
        d = policy.dist(obs)
        act = d.sample()
        old_logp = d.log_prob(act).sum(-1)
    reward = -(act - obs[:, :3]).pow(2).sum(-1)
    with torch.no_grad():
        adv = reward - policy.value(obs)  # BUG broadcast
        # FIX adv = reward - policy.value(obs).squeeze(-1)
    for epoch in range(4):
        logp = policy.dist(obs).log_prob(act).sum(-1)
        ratio = (logp - old_logp).exp()
        clipped = ratio.clamp(0.8, 1.2)
        pg = -torch.min(ratio * adv, clipped * adv).mean()
        v_loss = (policy.value(obs).squeeze(-1) - reward).pow(2).mean()
        opt.zero_grad()
        (pg + 0.5 * v_loss).backward()
        opt.step()
    print(iteration, pg.item())
