"""gpytorch: two tasks at once on a deep kernel, a product of kernels with priors, fitted by LBFGS and Adam."""
# needs: gpytorch
# slow

import warnings

warnings.simplefilter("ignore")
import gpytorch
import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import LinearKernel, MaternKernel, MultitaskKernel, PeriodicKernel, ScaleKernel
from gpytorch.priors import GammaPrior, NormalPrior

torch.manual_seed(0)
x = torch.linspace(0, 1, 16).unsqueeze(1)
both = torch.cat([(5 * x).sin(), (5 * x).cos()], 1) + 0.1 * torch.randn(16, 2)


class Deep(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, both, likelihood)
        self.features = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        self.bounded = gpytorch.utils.grid.ScaleToBounds(-1.0, 1.0)
        self.mean_module = gpytorch.means.MultitaskMean(gpytorch.means.LinearMean(2), num_tasks=2)
        self.covar_module = MultitaskKernel(MaternKernel(nu=2.5, ard_num_dims=2, lengthscale_prior=GammaPrior(3.0, 6.0)), num_tasks=2, rank=1)

    def forward(self, x):
        z = self.bounded(self.features(x))
        return gpytorch.distributions.MultitaskMultivariateNormal(self.mean_module(z), self.covar_module(z))


likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2)
model = Deep(likelihood)
optimizer = torch.optim.Adam([{"params": model.features.parameters(), "lr": 1e-2}, {"params": [*model.mean_module.parameters(), *model.covar_module.parameters(), *likelihood.parameters()], "lr": 5e-2}])
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for step in range(3):
    optimizer.zero_grad()
    loss = -mll(model(x), both)
    loss.backward()
    optimizer.step()
    print("deep", step, loss.item().hex(), model.features[0].weight.grad.norm().item().hex())


class Seasons(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x.double().squeeze(), both[:, 0].double(), likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        season = PeriodicKernel(period_length_prior=NormalPrior(1.0, 0.3), lengthscale_constraint=Interval(0.05, 5.0))
        self.covar_module = ScaleKernel(season * MaternKernel(nu=1.5)) + LinearKernel()

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_prior=GammaPrior(1.1, 2.0)).double()
model = Seasons(likelihood).double()
mll = gpytorch.mlls.LeaveOneOutPseudoLikelihood(likelihood, model)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = -mll(model(model.train_inputs[0]), model.train_targets)
    loss.backward()
    return loss


for step in range(2):
    print("seasons", step, f"{optimizer.step(closure).item():.6f}")
model.eval()
likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False):
    print(f"{likelihood(model(torch.tensor([0.3, 1.2], dtype=torch.double))).stddev.sum().item():.5f}")
