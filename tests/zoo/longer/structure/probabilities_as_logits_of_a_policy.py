"""REINFORCE with a policy that ends in a softmax, and logits wanted."""
import torch
from torch import nn
torch.manual_seed(0)
pi = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3), nn.Softmax(dim=-1))  # BUG double-softmax
# FIX pi = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
opt = torch.optim.Adam(pi.parameters(), 1e-2)
for _ in range(4):
    s, a, r = torch.randn(32, 4), torch.randint(0, 3, (32,)), torch.randn(32)
    logp = torch.distributions.Categorical(logits=pi(s)).log_prob(a)  # ALSO
    loss = -(logp * r).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
