"""WGAN-GP: the norm of the critic's input gradient."""
import torch
import torch.nn as nn

torch.manual_seed(0)

critic = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 1))
opt = torch.optim.Adam(critic.parameters(), lr=1e-3)


def penalty(scores, points):
    (grad,) = torch.autograd.grad(scores.sum(), points)  # BUG second-backward
    # FIX (grad,) = torch.autograd.grad(scores.sum(), points, create_graph=True)
    return ((grad.norm(dim=1) - 1) ** 2).mean()


for it in range(3):
    real, fake = torch.randn(8, 3) + 1, torch.randn(8, 3)
    mix = torch.rand(8, 1)
    points = (mix * real + (1 - mix) * fake).requires_grad_(True)
    scores = critic(points)
    gp = penalty(scores, points)
    loss = critic(fake).mean() - critic(real).mean() + 0.001 * scores.pow(2).mean() + 10 * gp
    opt.zero_grad()
    loss.backward()  # ALSO
    opt.step()
    print(it, loss.item(), gp.item())
