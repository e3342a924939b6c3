"""The critic is cleared before the generator's backward, which then fills it again."""
import torch
import torch.nn as nn

torch.manual_seed(0)

gen = nn.Sequential(nn.Linear(2, 10), nn.Tanh(), nn.Linear(10, 3))
critic = nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Linear(10, 1))
gen_opt = torch.optim.RMSprop(gen.parameters(), lr=1e-3)
critic_opt = torch.optim.RMSprop(critic.parameters(), lr=1e-3)

for it in range(4):
    real = torch.randn(12, 3) + 1
    fake = gen(torch.randn(12, 2))

    gen_opt.zero_grad()
    critic_opt.zero_grad()  # ALSO
    # FIX
    gen_loss = -critic(fake).mean()
    gen_loss.backward()  # ALSO
    gen_opt.step()

    # ADD critic_opt.zero_grad()
    critic_loss = critic(fake.detach()).mean() - critic(real).mean()
    critic_loss.backward()  # BUG gradients-add-up
    critic_opt.step()  # ALSO
    print(it, gen_loss.item(), critic_loss.item())
