"""torchdiffeq: a continuous normalizing flow, with the trace of its Jacobian by a second derivative."""
# needs: torchdiffeq
# slow

import torch
from torchdiffeq import odeint_adjoint

torch.manual_seed(0)


class Flow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

    def forward(self, t, state):
        z, _ = state
        with torch.enable_grad():
            z = z.requires_grad_(True)
            dz = self.net(torch.cat([z, t.expand(len(z), 1)], 1))
            trace = sum(torch.autograd.grad(dz[:, k].sum(), z, create_graph=True)[0][:, k] for k in range(2))
        return dz, -trace.view(-1, 1)


flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
prior = torch.distributions.MultivariateNormal(torch.zeros(2), 0.3 * torch.eye(2))
for step in range(3):
    angle = torch.rand(16) * 6.28
    points = torch.stack([angle.cos(), angle.sin()], 1)
    start = points, torch.zeros(16, 1)
    z, change = odeint_adjoint(flow, start, torch.tensor([1.0, 0.0]), method="dopri5", atol=1e-3, rtol=1e-3)
    loss = -(prior.log_prob(z[-1]) - change[-1].view(-1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), flow.net[0].weight.grad.norm().item().hex())
