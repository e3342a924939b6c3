import warnings

import torch
import torch.nn as nn

warnings.filterwarnings("ignore")
torch.manual_seed(0)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, s):
        return self.net(s)


critic = Critic()
opt = torch.optim.Adam(critic.parameters(), lr=0.01)
criterion = nn.MSELoss()
states = torch.randn(32, 4)
returns = states.pow(2).sum(dim=1)
for i in range(4):
    values = critic(states)
    loss = criterion(values, returns)  # BUG broadcast
    # FIX loss = criterion(values.squeeze(-1), returns)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())
