"""pyro: a variational autoencoder with labels for some of its data, its networks registered by modules."""
# needs: pyro
# slow

import warnings

warnings.simplefilter("ignore")
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, TraceEnum_ELBO, TraceMeanField_ELBO, config_enumerate
from pyro.optim import ExponentialLR

pyro.set_rng_seed(0)
x = (torch.rand(12, 6) > 0.5).float()
y = torch.randint(0, 2, (12,))


class Semi(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = torch.nn.Sequential(torch.nn.Linear(8, 10), torch.nn.Softplus(), torch.nn.Linear(10, 4))
        self.classify = torch.nn.Sequential(torch.nn.Linear(6, 2), torch.nn.LogSoftmax(-1))
        self.decode = torch.nn.Sequential(torch.nn.Linear(4, 10), torch.nn.Softplus(), torch.nn.Linear(10, 6))

    def model(self, x, y=None):
        pyro.module("semi", self)
        with pyro.plate("data", len(x)), pyro.poutine.scale(scale=0.5):
            z = pyro.sample("z", dist.Normal(torch.zeros(len(x), 2), 1.0).to_event(1))
            kind = pyro.sample("y", dist.OneHotCategorical(torch.tensor([0.4, 0.6])), obs=y)
            z, kind = torch.broadcast_tensors(z, kind)
            pyro.sample("x", dist.Bernoulli(logits=self.decode(torch.cat([z, kind], -1))).to_event(1), obs=x)

    def guide(self, x, y=None):
        with pyro.plate("data", len(x)), pyro.poutine.scale(scale=0.5):
            if y is None:
                y = pyro.sample("y", dist.OneHotCategorical(logits=self.classify(x)))
            loc, scale = self.encode(torch.cat([x.expand(*y.shape[:-1], 6), y], -1)).chunk(2, -1)
            pyro.sample("z", dist.Normal(loc, scale.exp()).to_event(1))


semi = Semi()
schedule = ExponentialLR({"optimizer": torch.optim.Adam, "optim_args": {"lr": 1e-2}, "gamma": 0.9})
with_labels = SVI(semi.model, semi.guide, schedule, TraceMeanField_ELBO())
without = SVI(semi.model, config_enumerate(semi.guide, expand=True), schedule, TraceEnum_ELBO(max_plate_nesting=1))
kinds = torch.nn.functional.one_hot(y, 2).float()
for step in range(3):
    print(step, float(with_labels.step(x[:6], kinds[:6])).hex(), float(without.step(x[6:])).hex())
    schedule.step()
print(len(list(pyro.get_param_store())), semi.decode[0].weight.norm().item().hex())
