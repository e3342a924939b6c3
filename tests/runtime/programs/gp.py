import torch
from torch import nn

torch.manual_seed(3)
G = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og = torch.optim.RMSprop(G.parameters(), lr=1e-3)
od = torch.optim.RMSprop(D.parameters(), lr=1e-3)
real = torch.randn(32, 2) * 0.3 + torch.tensor([1.0, -1.0])
for it in range(10):
    fake = G(torch.randn(32, 4)).detach()
    eps = torch.rand(32, 1)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    out = D(mix)
    (grad,) = torch.autograd.grad(out, mix, torch.ones_like(out), create_graph=True)
    gp = ((grad.norm(2, dim=1) - 1) ** 2).mean()
    ld = D(fake).mean() - D(real).mean() + 10 * gp
    od.zero_grad()
    ld.backward()
    od.step()
    lg = -D(G(torch.randn(32, 4))).mean()
    og.zero_grad()
    lg.backward()
    og.step()
    print(it, f"{ld.item():.4f} {lg.item():.4f} {gp.item():.4f}")
