"""The temperature is annealed, and reaches zero in the last round."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Router(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.gate = nn.Linear(4, experts)
        self.experts = nn.ModuleList(nn.Linear(4, 1) for _ in range(experts))

    def forward(self, x, temperature):
        weights = torch.softmax(self.gate(x) / temperature, dim=1)  # BUG non-finite
        outputs = torch.cat([expert(x) for expert in self.experts], dim=1)
        return (weights * outputs).sum(dim=1)


router = Router(3)
opt = torch.optim.Adam(router.parameters(), lr=0.01)
x = torch.randn(20, 4)
y = torch.where(x[:, 0] > 0, x[:, 1], -x[:, 2])
ROUNDS = 4
for k in range(ROUNDS):
    temperature = 1.0 - k / (ROUNDS - 1)  # ALSO
    # FIX temperature = max(0.3, 1.0 - k / (ROUNDS - 1))
    loss = (router(x, temperature) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(k, temperature, loss.item())
