import torch
from torch import nn

torch.manual_seed(0)


def toggle(net, on):
    for p in net.parameters():
        p.requires_grad_(on)


gen = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
critic = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
g_opt = torch.optim.RMSprop(gen.parameters(), lr=5e-4)
c_opt = torch.optim.RMSprop(critic.parameters(), lr=5e-4)

for it in range(6):
    real = torch.randn(32, 2) * 0.2 + 1
    fake = gen(torch.randn(32, 4)).detach()
    # ADD toggle(critic, True)
    score = critic(real).mean() - critic(fake).mean()
    if score.requires_grad:
        c_opt.zero_grad()
        (-score).backward()
        c_opt.step()

    toggle(critic, False)  # BUG frozen
    g_loss = -critic(gen(torch.randn(32, 4))).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    print(it, score.item(), g_loss.item())
