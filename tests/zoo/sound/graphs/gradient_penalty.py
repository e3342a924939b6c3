import torch
import torch.nn as nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 1))
opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(3):
    real, fake = torch.randn(8, 3) + 1, torch.randn(8, 3)
    mix = torch.rand(8, 1)
    points = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
    loss = critic(fake).mean() - critic(real).mean() + 10 * (grad.norm(dim=1) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
