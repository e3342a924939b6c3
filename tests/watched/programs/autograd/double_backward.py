"""A gradient penalty: gradients of gradients, by autograd.grad with create_graph."""
# slow

import torch

torch.manual_seed(0)
critic = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Softplus(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
for step in range(4):
    real, fake = torch.randn(8, 4) + 1, torch.randn(8, 4)
    mix = torch.rand(8, 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = (slope.norm(dim=1) - 1).square().mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), critic[0].weight.grad.norm().item().hex())
