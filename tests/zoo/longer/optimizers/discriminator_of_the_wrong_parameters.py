"""A copied line: the discriminator's optimizer holds the generator."""

import torch
from torch import nn, optim

torch.manual_seed(5)


def block(i, o, act=True):
    return [nn.Linear(i, o), nn.ReLU()] if act else [nn.Linear(i, o)]


class WGAN:
    def __init__(self, latent=3, clip=0.05):
        self.latent, self.clip = latent, clip
        self.generator = nn.Sequential(*block(latent, 12), *block(12, 2, act=False))
        self.critic = nn.Sequential(*block(2, 12), *block(12, 1, act=False))
        self.optim_g = optim.RMSprop(self.generator.parameters(), lr=5e-4)
        self.optim_c = optim.RMSprop(self.generator.parameters(), lr=5e-4)  # BUG not-in-optimizer
        # FIX self.optim_c = optim.RMSprop(self.critic.parameters(), lr=5e-4)

    def noise(self, n):
        return torch.randn(n, self.latent)

    def critic_step(self, real):
        fake = self.generator(self.noise(len(real))).detach()
        loss = self.critic(fake).mean() - self.critic(real).mean()
        self.critic.zero_grad()
        loss.backward()
        self.optim_c.step()
        with torch.no_grad():
            for p in self.critic.parameters():
                p.clamp_(-self.clip, self.clip)
        return -loss.item()

    def generator_step(self, n):
        loss = -self.critic(self.generator(self.noise(n))).mean()
        self.generator.zero_grad()
        loss.backward()
        self.optim_g.step()
        return loss.item()


gan = WGAN()
real = torch.randn(32, 2) * 0.2 + 1
for it in range(3):
    for _ in range(2):
        w = gan.critic_step(real)
    print(it, w, gan.generator_step(32))
