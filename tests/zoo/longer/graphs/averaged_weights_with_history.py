"""An exponential moving average of weights that is computed where gradients are recorded."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class EMA:
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.backup = {}

    # ADD @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            new = (1.0 - self.decay) * p + self.decay * self.shadow[name]
            self.shadow[name] = new  # BUG graph-grows

    def store(self, model):
        self.backup = {name: p.detach().clone() for name, p in model.named_parameters()}
        for name, p in model.named_parameters():
            p.data.copy_(self.shadow[name].detach())

    def restore(self, model):
        for name, p in model.named_parameters():
            p.data.copy_(self.backup[name])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, obs):
        return torch.log_softmax(self.net(obs), dim=-1)


def evaluate(policy, obs):
    policy.eval()
    with torch.no_grad():
        score = policy(obs).exp()[:, 0].mean().item()
    policy.train()
    return score


policy = Policy()
ema = EMA(policy)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
obs = torch.randn(40, 5)
for step in range(8):
    log_probs = policy(obs)
    actions = log_probs.detach().exp().multinomial(1)
    reward = (actions.squeeze(1) == (obs[:, 0] > 0).long()).float()
    loss = -(log_probs.gather(1, actions).squeeze(1) * (reward - reward.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update(policy)  # ALSO
ema.store(policy)
print(evaluate(policy, obs))
ema.restore(policy)
print(evaluate(policy, obs))
