"""PPO actor and critic share one optimizer call order mistake: step only for the actor."""
import torch
import torch.nn as nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
opt_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)
for it in range(5):
    s = torch.randn(32, 4)
    adv = torch.randn(32)
    dist = torch.distributions.Categorical(logits=actor(s))
    a = dist.sample()
    pi_loss = -(dist.log_prob(a) * adv).mean()
    v_loss = (critic(s).squeeze(-1) - adv).pow(2).mean()
    opt_a.zero_grad()
    opt_c.zero_grad()
    (pi_loss + 0.5 * v_loss).backward()  # ALSO
    opt_a.step()
    opt_a.step()  # BUG steps-again
    # FIX opt_c.step()
