"""PPO whose old log-probabilities are computed with the graph, again in each epoch."""

import torch
import torch.nn as nn
from torch.distributions import Normal

torch.manual_seed(0)


class Agent(nn.Module):
    def __init__(self, seen=4, acts=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(seen, 16), nn.Tanh())
        self.mean, self.value = nn.Linear(16, acts), nn.Linear(16, 1)
        self.log_std = nn.Parameter(torch.full((acts,), -0.5))

    def forward(self, seen):
        body = self.body(seen)
        return Normal(self.mean(body), self.log_std.exp()), self.value(body).squeeze(-1)


def update(agent, opt, seen, done, gained, epochs=3, clip=0.2):
    # ADD with torch.no_grad():
    # ADD     before = agent(seen)[0].log_prob(done).sum(-1)
    for _ in range(epochs):
        now, value = agent(seen)
        before = agent(seen)[0].log_prob(done).sum(-1)  # ALSO
        # FIX pass
        advantage = (gained - value).detach()
        ratio = (now.log_prob(done).sum(-1) - before).exp()  # BUG sides-cancel
        # FIX ratio = (now.log_prob(done).sum(-1) - before).exp()
        clipped = ratio.clamp(1 - clip, 1 + clip)
        policy = -torch.min(ratio * advantage, clipped * advantage).mean()
        loss = policy + 0.5 * (gained - value).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


agent = Agent()
opt = torch.optim.Adam(agent.parameters(), lr=3e-3)
for iteration in range(3):
    seen = torch.randn(32, 4)
    with torch.no_grad():
        done = agent(seen)[0].sample()
    gained = -(done - seen[:, :2]).pow(2).sum(-1)
    print(iteration, update(agent, opt, seen, done, gained))
