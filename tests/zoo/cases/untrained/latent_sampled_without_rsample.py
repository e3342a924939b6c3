"""A variational auto-encoder written with torch.distributions."""
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(self, dim=12, latent=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, 24), nn.Tanh())
        self.mu, self.log_std = nn.Linear(24, latent), nn.Linear(24, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 24), nn.Tanh(), nn.Linear(24, dim))

    def encode(self, x):
        h = self.encoder(x)
        return Normal(self.mu(h), self.log_std(h).exp())

    def forward(self, x):
        q = self.encode(x)
        z = q.sample()  # BUG graph-cut
        # FIX z = q.rsample()
        return self.decoder(z), q


def elbo(model, x, beta=1.0):
    recon, q = model(x)
    prior = Normal(torch.zeros_like(q.loc), torch.ones_like(q.scale))
    rec = ((recon - x) ** 2).sum(1)
    kl = kl_divergence(q, prior).sum(1)
    return (rec + beta * kl).mean()


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = torch.randn(64, 3) @ torch.randn(3, 12)
for epoch in range(5):
    for batch in data.split(16):
        loss = elbo(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
