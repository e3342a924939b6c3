"""VAE whose sample is drawn by torch.normal."""
import torch
from torch import nn, optim


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.Softplus())
        self.to_mu, self.to_logvar = nn.Linear(16, 2), nn.Linear(16, 2)
        self.decoder = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 8))

    def forward(self, x, kl_weight=0.0):
        h = self.trunk(x)
        mu, std = self.to_mu(h), (0.5 * self.to_logvar(h)).exp()
        z = torch.normal(mu, std)  # BUG zero-slope
        # FIX z = mu + std * torch.randn_like(std)
        return ((self.decoder(z) - x) ** 2).sum(-1).mean()


torch.manual_seed(0)
m = Model()
o = optim.Adam(m.parameters(), lr=3e-3)
for epoch in range(4):
    o.zero_grad()
    m(torch.randn(25, 8)).backward()
    o.step()
