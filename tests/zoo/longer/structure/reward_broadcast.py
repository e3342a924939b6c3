"""Actor-critic: td errors of every pair."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class AC(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 32)
        self.pi, self.v = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, s):
        h = torch.relu(self.body(s))
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h)
        # FIX return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


net = AC()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(4):
    s, ret = torch.randn(20, 4), torch.rand(20)
    dist, value = net(s)
    a = dist.sample()
    adv = ret - value  # BUG broadcast
    loss = -(dist.log_prob(a) * adv.detach()).mean() + 0.5 * adv.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
