"""pyro: schools share a prior; NUTS in a better coordinate, guides of low rank and of flows, predictions from both."""
# needs: pyro
# slow

import warnings

warnings.simplefilter("ignore")
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Predictive, RenyiELBO, Trace_ELBO
from pyro.infer.autoguide import AutoIAFNormal, AutoLowRankMultivariateNormal
from pyro.infer.reparam import LocScaleReparam
from pyro.nn import PyroModule, PyroSample

effects = torch.tensor([28.0, 8.0, -3.0, 7.0])
errors = torch.tensor([15.0, 10.0, 16.0, 11.0])


@pyro.poutine.reparam(config={"theta": LocScaleReparam(0.0)})
def schools(observed=None):
    mu, tau = pyro.sample("mu", dist.Normal(0.0, 10.0)), pyro.sample("tau", dist.HalfCauchy(5.0))
    with pyro.plate("schools", 4):
        theta = pyro.sample("theta", dist.Normal(mu, tau))
        return pyro.sample("y", dist.Normal(theta, errors), obs=observed)


pyro.set_rng_seed(1)
chain = MCMC(NUTS(schools, max_tree_depth=2), num_samples=4, warmup_steps=3, disable_progbar=True)
chain.run(effects)
print({name: value.sum().item().hex() for name, value in chain.get_samples().items()})
print(Predictive(schools, chain.get_samples())()["y"].mean().item().hex())
for make in (lambda model: AutoLowRankMultivariateNormal(model, rank=1), lambda model: AutoIAFNormal(model, hidden_dim=[8])):
    pyro.clear_param_store()
    guide = make(schools)
    svi = SVI(schools, guide, pyro.optim.Adagrad({"lr": 0.05}), Trace_ELBO(num_particles=2, vectorize_particles=False))
    print(type(guide).__name__, *(float(svi.step(effects)).hex() for _ in range(3)))


class Regression(PyroModule):
    def __init__(self):
        super().__init__()
        self.linear = PyroModule[torch.nn.Linear](3, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 3]).to_event(2))

    def forward(self, x, y=None):
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("data", len(x)):
            return pyro.sample("obs", dist.StudentT(4.0, mean, 0.5), obs=y)


pyro.clear_param_store()
x = torch.randn(10, 3)
model = Regression()
svi = SVI(model, pyro.infer.autoguide.AutoNormal(model), pyro.optim.Adam({"lr": 0.02}), RenyiELBO(alpha=0.5, num_particles=3))
print(*(float(svi.step(x, x.sum(1))).hex() for _ in range(3)))
