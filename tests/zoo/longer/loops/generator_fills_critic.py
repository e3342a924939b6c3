"""A GAN step in which the discriminator's backward fills the generator's gradients."""
import torch
from torch import nn

bce = nn.BCEWithLogitsLoss()


def step(G, D, g_opt, d_opt, real):
    g_opt.zero_grad()
    d_opt.zero_grad()
    fake = G(torch.randn(real.size(0), 5))
    ones, zeros = torch.ones(real.size(0), 1), torch.zeros(real.size(0), 1)
    d_loss = bce(D(real), ones) + bce(D(fake), zeros)  # ALSO
    # FIX d_loss = bce(D(real), ones) + bce(D(fake.detach()), zeros)
    d_loss.backward(retain_graph=True)  # BUG gradients-add-up
    # FIX d_loss.backward()
    d_opt.step()
    g_loss = bce(D(fake), ones)
    g_loss.backward()  # ALSO
    g_opt.step()
    return d_loss.item(), g_loss.item()


torch.manual_seed(0)
G = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opts = [torch.optim.Adam(m.parameters(), lr=1e-3) for m in (G, D)]
for k in range(4):
    print(step(G, D, *opts, torch.randn(32, 2) + 3))
