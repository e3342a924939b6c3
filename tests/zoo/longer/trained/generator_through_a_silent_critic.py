"""A GAN whose generator loss is computed while the discriminator is 'switched off'."""

import torch
import torch.nn as nn

torch.manual_seed(0)
LATENT = 4


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(LATENT, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x)


class GAN:
    def __init__(self):
        self.g, self.d = Generator(), Discriminator()
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.bce = nn.BCEWithLogitsLoss()

    def train_d(self, real):
        fake = self.g(torch.randn(len(real), LATENT)).detach()
        loss = self.bce(self.d(real), torch.ones(len(real), 1))
        loss = loss + self.bce(self.d(fake), torch.zeros(len(real), 1))
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.item()

    def train_g(self, count):
        fake = self.g(torch.randn(count, LATENT))
        with torch.no_grad():  # BUG graph-cut
        # FIX if True:
            score = self.d(fake)  # ALSO
        loss = self.bce(score, torch.ones(count, 1))
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss.item()


gan = GAN()
data = torch.randn(64, 2) * 0.3 + torch.tensor([1.0, -1.0])
for step, real in enumerate(data.split(16)):
    print(step, gan.train_d(real), gan.train_g(16))
