"""Patches of two views of an image are matched by cosine similarity."""
import torch
import torch.nn.functional as F
from torch import nn


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(9, 24), nn.GELU(), nn.Linear(24, 10))

    def forward(self, patches):
        return F.normalize(self.body(patches), p=2)  # BUG wrong-dim
        # FIX return F.normalize(self.body(patches), p=2, dim=2)


torch.manual_seed(0)
net = Patches()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for it in range(4):
    image = torch.rand(4, 7, 9)
    other = (image + 0.05 * torch.randn_like(image)).clamp(0, 1)
    similar = net(image) @ net(other).transpose(1, 2) / 0.1
    target = torch.arange(7).expand(4, 7)
    loss = F.cross_entropy(similar.flatten(0, 1), target.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
