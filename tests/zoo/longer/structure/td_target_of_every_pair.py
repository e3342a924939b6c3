"""DQN with a replay memory; rewards come as a row, Q-values as a column."""

import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
torch.manual_seed(0)
random.seed(0)


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)


class DQN(nn.Module):
    def __init__(self, n_obs=4, n_actions=2):
        super().__init__()
        self.layer1 = nn.Linear(n_obs, 24)
        self.layer2 = nn.Linear(24, n_actions)

    def forward(self, x):
        return self.layer2(F.relu(self.layer1(x)))


policy_net, target_net = DQN(), DQN()
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
memory = ReplayMemory(200)
for _ in range(40):
    s = torch.randn(1, 4)
    memory.push(s, torch.randint(0, 2, (1, 1)), s + 0.1 * torch.randn(1, 4), torch.randn(1))


def optimize_model(batch_size=16, gamma=0.95):
    batch = Transition(*zip(*memory.sample(batch_size)))
    states, actions = torch.cat(batch.state), torch.cat(batch.action)
    rewards, next_states = torch.cat(batch.reward), torch.cat(batch.next_state)
    q = policy_net(states).gather(1, actions)
    with torch.no_grad():
        next_values = target_net(next_states).max(1).values
    expected = next_values * gamma + rewards
    td_error = q - expected  # BUG broadcast
    # FIX td_error = q - expected.unsqueeze(1)
    loss = td_error.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    return loss.item()


for episode in range(4):
    print(episode, optimize_model())
    for target, source in zip(target_net.parameters(), policy_net.parameters()):
        target.data.copy_(0.005 * source.data + 0.995 * target.data)
