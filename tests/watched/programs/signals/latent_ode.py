"""torchdiffeq: a recurrent encoder and an ODE in latent space that fit noisy spirals."""
# needs: torchdiffeq
# slow

import torch
from torchdiffeq import odeint

torch.manual_seed(2)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRUCell(2, 10)
        self.out = torch.nn.Linear(10, 8)

    def forward(self, path):
        hidden = torch.zeros(path.shape[1], 10)
        for point in path.flip(0):
            hidden = self.cell(point, hidden)
        return self.out(hidden).chunk(2, -1)


class Dynamics(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 12), torch.nn.ELU(), torch.nn.Linear(12, 4))
        self.calls = 0

    def forward(self, t, z):
        self.calls += 1
        return self.layers(z)


times = torch.linspace(0, 3, 12)
phase = torch.rand(8) * 3
path = torch.stack([(times[:, None] + phase).cos(), (times[:, None] + phase).sin()], -1) + 0.05 * torch.randn(12, 8, 2)
encoder, dynamics, decoder = Encoder(), Dynamics(), torch.nn.Linear(4, 2)
parameters = [*encoder.parameters(), *dynamics.parameters(), *decoder.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-2)
for step in range(3):
    mean, log_variance = encoder(path)
    z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
    predicted = decoder(odeint(dynamics, z, times, method=["euler", "midpoint", "explicit_adams"][step]))
    divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(1).mean()
    loss = (predicted - path).square().sum(-1).mean() + 0.01 * divergence
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), dynamics.calls, encoder.out.weight.grad.norm().item().hex())
