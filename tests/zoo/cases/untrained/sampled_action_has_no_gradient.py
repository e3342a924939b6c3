"""A stochastic encoder: sample() cuts, rsample() does not."""
import torch
import torch.nn as nn
from torch.distributions import Normal

torch.manual_seed(0)


class Stochastic(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(6, 2)
        self.log_std = nn.Linear(6, 2)
        self.dec = nn.Linear(2, 6)

    def forward(self, x):
        q = Normal(self.mean(x), self.log_std(x).clamp(-3, 1).exp())
        z = q.sample()  # BUG graph-cut
        # FIX z = q.rsample()
        return self.dec(z)


model = Stochastic()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(32, 6)
for step in range(4):
    loss = (model(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
