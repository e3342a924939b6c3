"""The minimax loss of a GAN, written with log(1 - sigmoid), once the critic is sure."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class Nets(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
        self.d = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))


def critic_loss(nets, real, fake):
    on_real, on_fake = torch.sigmoid(nets.d(real)), torch.sigmoid(nets.d(fake))
    return -(torch.log(on_real + 1e-8) + torch.log(1 - on_fake + 1e-8)).mean()


def generator_loss(nets, fake):
    sure = torch.sigmoid(nets.d(fake) * 60)
    # FIX
    return torch.log(1 - sure).mean()  # BUG non-finite
    # FIX return -nn.functional.softplus(nets.d(fake) * 60).mean()


nets = Nets()
nn.init.constant_(nets.d[2].bias, 3.0)
opt_g = torch.optim.Adam(nets.g.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(nets.d.parameters(), lr=1e-3)
real = torch.randn(64, 2) + 3
for step in range(4):
    fake = nets.g(torch.randn(64, 3)) * 4
    opt_d.zero_grad()
    loss_d = critic_loss(nets, real, fake.detach())
    loss_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    loss_g = generator_loss(nets, fake)
    loss_g.backward()
    opt_g.step()
    print(step, loss_d.item(), loss_g.item())
