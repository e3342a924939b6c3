"""A tanh-Gaussian policy, as in soft actor-critic, fitted to recorded actions."""
import torch
import torch.nn as nn

torch.manual_seed(7)

obs = torch.randn(32, 5)
actions = torch.tanh(obs @ torch.randn(5, 2))
actions[4, 1] = 1.0  # the joystick was at its end
actions[9, 0] = -1.0


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 32), nn.ReLU())
        self.mean = nn.Linear(32, 2)
        self.log_std = nn.Parameter(torch.zeros(2))

    def log_prob(self, o, a):
        mu = self.mean(self.net(o))
        raw = torch.atanh(a)  # BUG non-finite
        # FIX raw = torch.atanh(a.clamp(-0.999, 0.999))
        z = (raw - mu) / self.log_std.exp()
        return (-0.5 * z * z - self.log_std).sum(dim=1)


actor = Actor()
optimizer = torch.optim.Adam(actor.parameters(), lr=3e-3)
for update in range(4):
    nll = -actor.log_prob(obs, actions).mean()
    optimizer.zero_grad()
    nll.backward()
    optimizer.step()
    print("update", update, nll.item())
