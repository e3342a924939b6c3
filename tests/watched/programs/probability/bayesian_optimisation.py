"""botorch: fit a GP, optimise an acquisition function, add the point, twice."""
# needs: botorch
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)


def f(x):
    return -((x - 0.6) ** 2).sum(-1, keepdim=True)


x = torch.rand(6, 2, dtype=torch.double)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
for step in range(2):
    model = SingleTaskGP(x, f(x))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = LogExpectedImprovement(model, best_f=f(x).max()) if step else UpperConfidenceBound(model, beta=0.2)
    point, value = optimize_acqf(acquisition, bounds=bounds, q=1, num_restarts=2, raw_samples=8, options={"maxiter": 10})
    x = torch.cat([x, point])
    print(step, value.item().hex(), point.norm().item().hex())
