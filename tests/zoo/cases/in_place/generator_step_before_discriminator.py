"""A GAN whose two losses share one forward pass."""
import torch
import torch.nn as nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 4))
D = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
g_opt = torch.optim.SGD(G.parameters(), lr=0.01)
d_opt = torch.optim.SGD(D.parameters(), lr=0.01)
bce = nn.BCEWithLogitsLoss()


def train_step(real):
    n = real.size(0)
    fake = G(torch.randn(n, 2))
    d_fake = D(fake.detach())
    d_loss = bce(D(real), torch.ones(n, 1)) + bce(d_fake, torch.zeros(n, 1))
    g_loss = bce(D(fake), torch.ones(n, 1))  # ALSO
    # FIX
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()  # BUG written-in-place
    # ADD g_loss = bce(D(fake), torch.ones(n, 1))
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    return d_loss.item(), g_loss.item()


for i in range(3):
    real = torch.randn(8, 4) + 2
    print(train_step(real))
