"""rsample to train with, sample to look at."""

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

torch.manual_seed(0)
enc, dec = nn.Linear(8, 6), nn.Linear(3, 8)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
x = torch.randn(32, 8)
for step in range(6):
    mu, log_std = enc(x).chunk(2, 1)
    q = Normal(mu, log_std.exp())
    z = q.rsample()
    loss = (dec(z) - x).pow(2).sum(1).mean() + kl_divergence(q, Normal(0.0, 1.0)).sum(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        shown = dec(q.sample()[:2])
    print(step, loss.item(), shown.mean().item())
