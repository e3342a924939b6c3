"""REINFORCE with a baseline: log-probabilities are (N,), the advantage is (N, 1)."""
import torch
import torch.nn as nn

torch.manual_seed(0)

actor, baseline = nn.Linear(3, 2), nn.Linear(3, 1)
opt = torch.optim.Adam([*actor.parameters(), *baseline.parameters()], lr=0.02)
obs = torch.randn(24, 3)
actions = torch.randint(0, 2, (24,))
returns = (obs[:, 0] * (2.0 * actions - 1)).detach()


def losses():
    logp = torch.log_softmax(actor(obs), dim=1)[torch.arange(24), actions]
    value = baseline(obs)
    # FIX value = baseline(obs).squeeze(1)
    advantage = returns.unsqueeze(1) - value.detach()  # ALSO
    # FIX advantage = returns - value.detach()
    policy_loss = -(logp * advantage).mean()  # BUG broadcast
    value_loss = (value.squeeze(1) - returns).pow(2).mean()
    # FIX value_loss = (value - returns).pow(2).mean()
    return policy_loss, value_loss


for it in range(4):
    policy_loss, value_loss = losses()
    opt.zero_grad()
    (policy_loss + 0.5 * value_loss).backward()
    opt.step()
    print(it, policy_loss.item(), value_loss.item())
