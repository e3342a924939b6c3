"""Policy gradient on a small bandit: log-probabilities of the actions taken."""
import torch
from torch import nn

torch.manual_seed(3)


class Policy(nn.Module):
    def __init__(self, n_states, n_actions):
        super().__init__()
        self.table = nn.Linear(n_states, n_actions)

    def forward(self, state):
        return torch.softmax(self.table(state), dim=-1)


def reinforce_loss(probs, actions, rewards):
    taken = probs.gather(1, actions.unsqueeze(1)).squeeze(1)
    allowed = (rewards > -1.0).float()
    logp = torch.log(taken * allowed)  # BUG non-finite
    # FIX logp = torch.log(taken) * allowed
    return -(logp * rewards).mean()


policy = Policy(6, 4)
optim = torch.optim.Adam(policy.parameters(), lr=0.02)
states = torch.eye(6)[torch.randint(0, 6, (16,))]
actions = torch.randint(0, 4, (16,))
rewards = torch.rand(16)
rewards[5] = -1.0

for episode in range(4):
    optim.zero_grad()
    loss = reinforce_loss(policy(states), actions, rewards)
    loss.backward()
    optim.step()
    print(episode, loss.item())
