"""Losses in which something is detached on purpose: commitment, targets, logs, straight-through."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
encode, decode = nn.Linear(6, 4), nn.Linear(4, 6)
book = nn.Parameter(torch.randn(8, 4))
value = nn.Linear(6, 1)
policy = nn.Linear(6, 3)
parameters = [*encode.parameters(), *decode.parameters(), book, *value.parameters()]
optimizer = torch.optim.Adam([*parameters, *policy.parameters()], lr=1e-3)
reg, floor = 0.0, 1e-8
for step in range(4):
    x, following, reward = torch.randn(12, 6), torch.randn(12, 6), torch.randn(12, 1)
    z = encode(x)
    q = book[torch.cdist(z.detach(), book.detach()).argmin(1)]
    commitment = F.mse_loss(z, q.detach())
    codebook = F.mse_loss(q, z.detach())
    straight = z + (q - z).detach()
    reconstruction = F.mse_loss(decode(straight), x)
    vq = reconstruction + codebook + 0.25 * commitment + reg
    target = reward + 0.9 * value(following).detach()
    error = F.mse_loss(value(x), target)
    advantage = (target - value(x)).detach()
    surrogate = -(policy(x).log_softmax(1)[:, :1] * advantage).mean()
    scale = vq.detach() / (error.detach() + floor)
    loss = vq + scale * error + surrogate
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    shown = vq.detach() + error.detach() + advantage.mean()
    print(step, shown.item())
