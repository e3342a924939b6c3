"""botorch: batches of points for two objectives, with noise that is known and a constraint."""
# needs: botorch gpytorch
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.acquisition.multi_objective.logei import qLogExpectedHypervolumeImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.multi_objective.box_decompositions import FastNondominatedPartitioning
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.multi_objective.pareto import is_non_dominated
from gpytorch.mlls import SumMarginalLogLikelihood

torch.manual_seed(0)
x = torch.rand(6, 2, dtype=torch.double)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
worst = torch.tensor([-2.0, -2.0], dtype=torch.double)
options = {"maxiter": 4, "batch_limit": 2}


def objectives(x):
    return torch.stack([-(x - 0.2).square().sum(-1), -(x - 0.7).square().sum(-1)], -1)


for step in range(2):
    y = objectives(x)
    models = [SingleTaskGP(x, y[:, k : k + 1], torch.full((len(x), 1), 1e-4, dtype=torch.double), input_transform=Normalize(2), outcome_transform=Standardize(1)) for k in range(2)]
    model = ModelListGP(*models)
    fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model), optimizer_kwargs={"options": {"maxiter": 5}})
    sampler = SobolQMCNormalSampler(torch.Size([8]), seed=step)
    if step == 0:
        acquisition = qLogExpectedHypervolumeImprovement(model, worst, FastNondominatedPartitioning(worst, y), sampler)
    else:
        acquisition = qLogNoisyExpectedImprovement(models[0], x, SobolQMCNormalSampler(torch.Size([8]), seed=9), prune_baseline=False)
    inequality = [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0], dtype=torch.double), -1.5)]
    points, value = optimize_acqf(acquisition, bounds, q=2, num_restarts=2, raw_samples=4, options=options, sequential=True, inequality_constraints=inequality)
    x = torch.cat([x, points])
    front = objectives(x)[is_non_dominated(objectives(x))]
    print(step, f"{value.sum().item():.4f}", f"{Hypervolume(worst).compute(front):.4f}", len(front))
