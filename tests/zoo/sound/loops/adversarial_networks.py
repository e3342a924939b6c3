"""The critic's gradients from the generator's backward are cleared before they are used."""
import torch
import torch.nn as nn

torch.manual_seed(0)
gen = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
gen_opt = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.9))
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
bce = nn.BCEWithLogitsLoss()
for it in range(4):
    real = torch.randn(16, 2) * 0.5 + 1
    fake = gen(torch.randn(16, 2))
    critic_opt.zero_grad()
    c_loss = bce(critic(real), torch.ones(16, 1)) + bce(critic(fake.detach()), torch.zeros(16, 1))
    c_loss.backward()
    critic_opt.step()
    gen_opt.zero_grad()
    g_loss = bce(critic(fake), torch.ones(16, 1))
    g_loss.backward()
    gen_opt.step()
    print(it, c_loss.item(), g_loss.item())
