"""A sparse variational Gaussian process of gpytorch, trained by batches with natural gradients."""
# needs: gpytorch
# slow

import gpytorch
import torch
from gpytorch.variational import NaturalVariationalDistribution, VariationalStrategy

torch.manual_seed(0)
x = torch.rand(40, 1)
y = torch.cos(5 * x[:, 0]) + 0.05 * torch.randn(40)


class Model(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        strategy = VariationalStrategy(self, points, NaturalVariationalDistribution(len(points)))
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


model, likelihood = Model(x[:8].clone()), gpytorch.likelihoods.GaussianLikelihood()
natural = gpytorch.optim.NGD(model.variational_parameters(), num_data=40, lr=0.1)
adam = torch.optim.Adam([*model.hyperparameters(), *likelihood.parameters()], lr=0.01)
elbo = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=40)
model.train()
likelihood.train()
for step in range(4):
    rows = slice(10 * step, 10 * step + 10)
    natural.zero_grad()
    adam.zero_grad()
    loss = -elbo(model(x[rows]), y[rows])
    loss.backward()
    natural.step()
    adam.step()
    print(step, loss.item().hex(), *(p.grad.norm().item().hex() for p in model.parameters()))
