import torch
import torch.nn as nn

torch.manual_seed(0)


def init_weights(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, 0.0, 1.0)  # BUG saturated
        # FIX nn.init.xavier_normal_(m.weight)
        nn.init.zeros_(m.bias)


class Actor(nn.Module):
    def __init__(self, obs=12, act=2, width=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
        )
        self.out = nn.Linear(width, act)
        self.apply(init_weights)

    def forward(self, x):
        return self.out(self.body(x))


actor = Actor()
opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
for step in range(8):
    obs = torch.randn(64, 12)
    target = torch.stack([obs[:, 0].sin(), obs[:, 1]], 1)
    loss = (actor(obs) - target).pow(2).mean()  
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
