"""pyro: SVI with a guide of its own, an automatic guide, and enumerated discrete latents."""
# needs: pyro
# slow

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDiagonalNormal
from pyro.optim import Adam, ClippedAdam

pyro.set_rng_seed(0)
data = torch.randn(20) * 0.5 + 2


def model(data):
    mean = pyro.sample("mean", dist.Normal(0.0, 5.0))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", len(data)):
        pyro.sample("x", dist.Normal(mean, scale), obs=data)


def guide(data):
    loc = pyro.param("loc", torch.tensor(0.0))
    spread = pyro.param("spread", torch.tensor(1.0), constraint=dist.constraints.positive)
    pyro.sample("mean", dist.Normal(loc, spread))
    pyro.sample("scale", dist.LogNormal(pyro.param("log", torch.tensor(0.0)), 0.1))


svi = SVI(model, guide, Adam({"lr": 0.05}), Trace_ELBO(num_particles=2))
print(*(float(svi.step(data)).hex() for _ in range(4)))
pyro.clear_param_store()
svi = SVI(model, AutoDiagonalNormal(model), ClippedAdam({"lr": 0.02}), Trace_ELBO())
print(*(float(svi.step(data)).hex() for _ in range(4)))
pyro.clear_param_store()


@config_enumerate
def mixture(data):
    means = pyro.param("means", torch.tensor([0.0, 1.0]))
    with pyro.plate("data", len(data)):
        which = pyro.sample("which", dist.Bernoulli(0.4))
        pyro.sample("x", dist.Normal(means[which.long()], 1.0), obs=data)


svi = SVI(mixture, lambda data: None, Adam({"lr": 0.05}), TraceEnum_ELBO(max_plate_nesting=1))
print(*(float(svi.step(data)).hex() for _ in range(4)), pyro.param("means").tolist())
