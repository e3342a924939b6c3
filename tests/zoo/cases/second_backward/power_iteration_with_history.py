"""A critic with spectral normalization, written by hand."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class SNLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(o, i) * 0.3), nn.Parameter(torch.zeros(o))
        self.register_buffer("u", F.normalize(torch.randn(o), dim=0))

    def forward(self, x):
        w = self.weight
        # FIX w = self.weight.detach()
        v = F.normalize(w.t() @ self.u, dim=0)
        self.u = F.normalize(w @ v, dim=0)  # BUG second-backward
        sigma = self.u @ (self.weight @ v)
        return F.linear(x, self.weight / sigma, self.bias)


critic = nn.Sequential(SNLinear(5, 16), nn.LeakyReLU(0.1), SNLinear(16, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for step in range(4):
    real, fake = torch.randn(16, 5) + 1, torch.randn(16, 5)
    loss = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
