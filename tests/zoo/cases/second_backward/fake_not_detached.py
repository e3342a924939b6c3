import torch
import torch.nn as nn

torch.manual_seed(0)


class GAN:
    def __init__(self):
        self.g = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 2))
        self.d = nn.Sequential(nn.Linear(2, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))
        self.g_opt = torch.optim.Adam(self.g.parameters(), lr=2e-3)
        self.d_opt = torch.optim.Adam(self.d.parameters(), lr=2e-3)
        self.bce = nn.BCEWithLogitsLoss()

    def critic_loss(self, real, fake):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(fake), 1)
        return self.bce(self.d(real), ones) + self.bce(self.d(fake), zeros)  # BUG second-backward
        # FIX return self.bce(self.d(real), ones) + self.bce(self.d(fake.detach()), zeros)

    def step(self, real):
        fake = self.g(torch.randn(len(real), 3))
        d_loss = self.critic_loss(real, fake)  # ALSO
        self.d_opt.zero_grad()
        d_loss.backward()  # ALSO
        self.d_opt.step()
        g_loss = self.bce(self.d(fake), torch.ones(len(real), 1))
        self.g_opt.zero_grad()
        g_loss.backward()  # ALSO
        self.g_opt.step()
        return d_loss.item(), g_loss.item()


gan = GAN()
for it in range(3):
    print(it, *gan.step(torch.randn(10, 2) * 0.3 + 1))
