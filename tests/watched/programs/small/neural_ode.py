"""torchdiffeq: a neural ODE by the solver's own steps and by the adjoint method, with an event."""
# needs: torchdiffeq

import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 12), torch.nn.Tanh(), torch.nn.Linear(12, 2))

    def forward(self, t, y):
        return self.net(y)


field, start, times = Field(), torch.randn(6, 2), torch.linspace(0, 1, 5)
optimizer = torch.optim.Adam(field.parameters(), lr=1e-2)
for step, solve in enumerate([odeint, odeint_adjoint, odeint, odeint_adjoint]):
    path = solve(field, start, times, method="rk4" if step < 2 else "dopri5")
    loss = (path[-1] - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), field.net[0].weight.grad.norm().item().hex())
speed = torch.tensor(2.0, requires_grad=True)
when, _ = odeint_event(lambda t, y: speed.expand_as(y), torch.zeros(1), torch.tensor(0.0), event_fn=lambda t, y: y[0] - 1)
when.backward()
print(when.item().hex(), speed.grad.item().hex())
