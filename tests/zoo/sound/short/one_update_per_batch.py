"""Clipped policy gradients with one update for each batch: the ratio is 1 on purpose."""

import torch
import torch.nn as nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)


def scores(states, actions):
    return policy(states).log_softmax(1)[torch.arange(len(states)), actions]


for update in range(5):  # the old scores are computed again, from new data
    states, actions = torch.randn(12, 4), torch.randint(0, 2, (12,))
    advantages = torch.randn(12)
    with torch.no_grad():
        old = scores(states, actions)
    ratio = (scores(states, actions) - old).exp()
    loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("ppo", update, round(loss.item(), 4))

for update in range(5):  # as in group-relative policy optimization: the old scores are detached
    states = torch.randn(3, 4).repeat_interleave(4, dim=0)
    with torch.no_grad():
        actions = torch.multinomial(policy(states).softmax(1), 1)[:, 0]
    reward = (actions == states[:, :2].argmax(1)).float().view(3, 4)
    advantages = (reward - reward.mean(1, keepdim=True)).flatten()
    new = scores(states, actions)
    ratio = torch.exp(new - new.detach())
    clipped = torch.clamp(ratio, 0.8, 1.2)
    loss = -torch.min(ratio * advantages, clipped * advantages).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("grpo", update, round(loss.item(), 4))
