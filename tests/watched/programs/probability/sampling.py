"""pyro: Hamiltonian Monte Carlo, with gradients of the potential at each leapfrog step."""
# needs: pyro
# slow

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS

pyro.set_rng_seed(1)
x = torch.randn(15, 2)
y = (x @ torch.tensor([1.0, -1.0]) > 0).float()


def model():
    weight = pyro.sample("weight", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    with pyro.plate("rows", 15):
        pyro.sample("y", dist.Bernoulli(logits=x @ weight), obs=y)


mcmc = MCMC(NUTS(model, max_tree_depth=3), num_samples=6, warmup_steps=4, disable_progbar=True)
mcmc.run()
print(*(each.hex() for each in mcmc.get_samples()["weight"].flatten().tolist()))
