"""A deep autoencoder, initialized "small to be safe"."""
import torch
import torch.nn as nn


def init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, std=1e-3)  # BUG vanishing
        # FIX nn.init.xavier_normal_(m.weight)
        nn.init.zeros_(m.bias)


def autoencoder(width=20, depth=6):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, width))


torch.manual_seed(0)
net = autoencoder().apply(init)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(64, 20)
    loss = nn.functional.mse_loss(net(x), x)  # ALSO
    opt.zero_grad()
    loss.backward()
    opt.step()
