"""Minibatch discrimination: how much the generated samples of a group differ."""
import torch
import torch.nn as nn

torch.manual_seed(0)

G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6), nn.ReLU())
D = nn.Sequential(nn.Linear(7, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()


def with_spread(images):
    centred = images - images.mean(dim=0)
    spread = torch.sqrt((centred ** 2).mean(dim=0))  # BUG non-finite
    # FIX spread = torch.sqrt((centred ** 2).mean(dim=0) + 1e-8)
    extra = spread.mean().expand(images.size(0), 1)
    return torch.cat([images, extra], dim=1)


for p in D.parameters():
    p.requires_grad_(False)
for it in range(3):
    z = torch.randn(8, 4)
    fake = G(z) * torch.tensor([1.0, 1, 1, 1, 1, 0])  # the border pixel is always black
    loss_g = bce(D(with_spread(fake)), torch.ones(8, 1))
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    print(it, loss_g.item())
