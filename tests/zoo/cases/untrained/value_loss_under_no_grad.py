"""Advantage actor-critic on random episodes."""
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 3), nn.Linear(32, 1)

    def forward(self, s):
        h = self.body(s)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


net = ActorCritic()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for it in range(6):
    states = torch.randn(20, 6)
    dist, values = net(states)
    actions = dist.sample()
    rewards = (actions == 1).float()
    returns = torch.zeros(20)
    running = 0.0
    for i in reversed(range(20)):
        running = rewards[i] + 0.9 * running
        returns[i] = running
    with torch.no_grad():  # BUG graph-cut
    # FIX if True:
        advantage = returns - values
        value_loss = (returns - values).pow(2).mean()
    policy_loss = -(dist.log_prob(actions) * advantage.detach()).mean()
    loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(it, policy_loss.item(), value_loss.item())
