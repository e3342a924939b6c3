"""Actions are sampled and read out as numbers; only their log-probabilities carry gradients."""
import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(policy.parameters(), lr=0.01)
for episode in range(3):
    log_probs, rewards = [], []
    state = torch.randn(3)
    for _ in range(6):
        dist = Categorical(logits=policy(state))
        action = dist.sample()
        log_probs.append(dist.log_prob(action))
        rewards.append(1.0 if action.item() == int(state[0] > 0) else 0.0)
        state = torch.randn(3)
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = -(torch.stack(log_probs) * returns).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(episode, sum(rewards), loss.item())
