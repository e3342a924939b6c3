# DQN on a toy chain; target net is synced every few updates
import random
from collections import deque

import torch
import torch.nn as nn

random.seed(0)
torch.manual_seed(0)


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x):
        return self.net(x)


q, target = Q(), Q()
target.load_state_dict(q.state_dict())
optim = torch.optim.Adam(q.parameters(), lr=1e-3)
buffer = deque(maxlen=200)
state = torch.randn(4)
for t in range(60):
    action = random.randrange(2) if random.random() < 0.3 else q(state).argmax().item()
    nxt = state * 0.7 + torch.randn(4) * 0.3
    buffer.append((state, action, float(nxt[0] > 0), nxt))
    state = nxt
    if len(buffer) < 16:
        continue
    s, a, r, s2 = zip(*random.sample(buffer, 16))
    s, s2, r = torch.stack(s), torch.stack(s2), torch.tensor(r)
    a = torch.tensor(a)
    best = q(s2).max(1).values  # BUG target-with-gradient
    # FIX with torch.no_grad():
    # FIX     best = target(s2).max(1).values
    y = r + 0.95 * best
    loss = (q(s).gather(1, a[:, None]).squeeze(1) - y).pow(2).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
    if t % 10 == 0:
        target.load_state_dict(q.state_dict())
print("loss", loss.item())
