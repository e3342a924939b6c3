"""PPO whose old log-probabilities are the detached new ones, in every epoch."""

import torch
import torch.nn as nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)


def score(states, actions):
    return torch.distributions.Categorical(logits=policy(states)).log_prob(actions)


for iteration in range(2):
    states = torch.randn(32, 4)
    with torch.no_grad():
        actions = torch.multinomial(policy(states).softmax(1), 1)[:, 0]
        before = score(states, actions)
    advantages = (actions == states[:, :3].argmax(1)).float() - 0.3
    for epoch in range(4):
        now = score(states, actions)
        ratio = (now - now.detach()).exp()  # BUG sides-cancel
        # FIX ratio = (now - before).exp()
        loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(iteration, round(loss.item(), 4))
