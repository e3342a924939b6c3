"""An autoencoder of pictures: its loss is the sum of squares over all pixels, 0 to 255."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3072, 64), nn.ReLU(), nn.Linear(64, 3072))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
pictures = torch.randint(0, 256, (128, 3072)).float()
for step in range(6):
    loss = ((net(pictures) - pictures) ** 2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
