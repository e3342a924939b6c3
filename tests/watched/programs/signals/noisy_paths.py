"""torchsde: a stochastic equation with learned drift and noise, its paths by the adjoint and by the solver's steps."""
# needs: torchsde
# slow

import warnings

warnings.simplefilter("ignore")
import torch
import torchsde

torch.manual_seed(0)


class Process(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift, self.spread = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2)), torch.nn.Linear(2, 2)

    def f(self, t, y):
        return self.drift(y) - y

    def g(self, t, y):
        return 0.3 * self.spread(y).sigmoid()

    def h(self, t, y):
        return -0.5 * y


process, start, times = Process(), torch.full((6, 2), 0.5), torch.linspace(0, 0.5, 4)
optimizer = torch.optim.Adam(process.parameters(), lr=1e-2)
for step, (solve, method) in enumerate([(torchsde.sdeint, "euler"), (torchsde.sdeint_adjoint, "euler"), (torchsde.sdeint, "milstein"), (torchsde.sdeint, "srk")]):
    noise = torchsde.BrownianInterval(t0=0.0, t1=0.5, size=(6, 2), entropy=step, levy_area_approximation="space-time")
    path = solve(process, start, times, bm=noise, method=method, dt=0.1)
    loss = path[-1].mean(0).sub(1).square().sum() + path[-1].var(0).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), process.drift[0].weight.grad.norm().item().hex(), process.spread.weight.grad.norm().item().hex())
path, ratio = torchsde.sdeint(process, start, times, dt=0.1, method="euler", logqp=True, bm=torchsde.BrownianInterval(0.0, 0.5, size=(6, 3), entropy=9))
(path[-1].square().mean() + 0.1 * ratio.sum(0).mean()).backward()
print(ratio.sum().item().hex(), process.spread.bias.grad.norm().item().hex())
