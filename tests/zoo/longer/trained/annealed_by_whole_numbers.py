"""The weight of the KL term is annealed by an integer division, and stays zero."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class SentenceVAE(nn.Module):
    def __init__(self, d=10, z=3):
        super().__init__()
        self.enc = nn.GRU(d, d, batch_first=True)
        self.mu, self.logvar = nn.Linear(d, z), nn.Linear(d, z)
        self.dec = nn.Sequential(nn.Linear(z, d), nn.Tanh(), nn.Linear(d, d))
        self.prior = nn.Parameter(torch.zeros(z))

    def forward(self, x):
        _, h = self.enc(x)
        mu, logvar = self.mu(h[0]), self.logvar(h[0])
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar

    def kl(self, mu, logvar):
        return -0.5 * (1 + logvar - (mu - self.prior).pow(2) - logvar.exp()).sum(1).mean()


def kl_weight(step, total):
    return step // total  # BUG zeroed
    # FIX return (step + 1) / total


model = SentenceVAE()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.randn(24, 6, 10)
total = 12
step = 0
for epoch in range(4):
    for x in data.split(8):
        rec, mu, logvar = model(x)
        loss = F.mse_loss(rec, x[:, -1]) + kl_weight(step, total) * model.kl(mu, logvar)  # ALSO
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
    print(epoch, loss.item(), model.prior.tolist())
