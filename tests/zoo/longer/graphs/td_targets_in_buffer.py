"""n-step returns bootstrapped from the value net, kept in a replay buffer."""
import random
from collections import deque

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
value = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(value.parameters(), lr=1e-3)
buffer = deque(maxlen=200)
state = torch.randn(3)
for step in range(40):
    nxt = state + 0.1 * torch.randn(3)
    target = nxt.sum() + 0.9 * value(nxt)  # BUG carried-over
    # FIX target = nxt.sum() + 0.9 * value(nxt).detach()
    buffer.append((state, target))  # ALSO
    state = nxt
    if step >= 20 and step % 5 == 0:
        batch = random.sample(buffer, 6)
        s = torch.stack([b[0] for b in batch])
        tgt = torch.stack([b[1] for b in batch])
        loss = (value(s) - tgt).pow(2).mean()
        opt.zero_grad()
        loss.backward()  # ALSO
        opt.step()
