"""Points on a ring: one clear at the top, and the critic's loss also reaches the generator."""
import torch
from torch import nn

torch.manual_seed(0)


def layers(*widths):
    pairs = zip(widths[:-1], widths[1:])
    return nn.Sequential(*[part for a, b in pairs for part in (nn.Linear(a, b), nn.Tanh())][:-1])


def ring(many):
    angle = 6.2832 * torch.rand(many, 1)
    return torch.cat([angle.cos(), angle.sin()], 1)


generator, critic = layers(4, 16, 2), layers(2, 16, 1)
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
judge = nn.functional.softplus

for it in range(5):
    made = generator(torch.randn(24, 4))
    of_critic.zero_grad()
    of_generator.zero_grad()  # ALSO
    # FIX
    critic_loss = (judge(-critic(ring(24))) + judge(critic(made))).mean()
    critic_loss.backward(retain_graph=True)  # ALSO
    of_critic.step()

    critic.requires_grad_(False)
    loss = judge(-critic(made)).mean()
    # ADD of_generator.zero_grad()
    loss.backward()  # BUG gradients-add-up
    of_generator.step()  # ALSO
    critic.requires_grad_(True)
    print(it, critic_loss.item(), loss.item())
