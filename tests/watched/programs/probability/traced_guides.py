"""Pyro with its models compiled by torch.jit.trace: ELBOs, an enumerated one, and a sampler."""
# needs: pyro
# slow

import warnings

warnings.simplefilter("ignore")
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, JitTrace_ELBO, JitTraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDelta, AutoLowRankMultivariateNormal
from pyro.optim import ClippedAdam
from pyro.poutine import block

pyro.set_rng_seed(0)
x = torch.randn(12, 3)
y = (x.sum(1) > 0).float()


def logistic(x, y):
    weights = pyro.sample("weights", dist.Normal(torch.zeros(3), 1.0).to_event(1))
    with pyro.plate("data", 12):
        pyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)


@config_enumerate
def mixture(points):
    means = pyro.sample("means", dist.Normal(torch.tensor([-1.0, 1.0]), 1.0).to_event(1))
    with pyro.plate("points", 12):
        kind = pyro.sample("kind", dist.Categorical(torch.ones(2) / 2))
        pyro.sample("point", dist.Normal(means[kind], 0.5), obs=points)


svi = SVI(logistic, AutoLowRankMultivariateNormal(logistic, rank=1), ClippedAdam({"lr": 0.05}), JitTrace_ELBO())
print(*(float(svi.step(x, y)).hex() for _ in range(4)))
pyro.clear_param_store()
guide = AutoDelta(block(mixture, hide=["kind"]))
svi = SVI(mixture, guide, ClippedAdam({"lr": 0.05}), JitTraceEnum_ELBO(max_plate_nesting=1))
print(*(float(svi.step(x[:, 0])).hex() for _ in range(4)), guide.median()["means"].tolist())
chain = MCMC(NUTS(logistic, jit_compile=True, ignore_jit_warnings=True, max_tree_depth=3), num_samples=3, warmup_steps=3, disable_progbar=True)
chain.run(x, y)
print(*(each.hex() for each in chain.get_samples()["weights"].flatten().tolist()))
