"""BackPACK: gradients of each sample, variances and curvature beside the usual backward."""
# needs: backpack torchvision
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from backpack import backpack, extend
from backpack.extensions import KFAC, BatchGrad, DiagGGNExact, DiagHessian, Variance

torch.manual_seed(0)
x, y = torch.randn(6, 1, 6, 6), torch.randint(0, 3, (6,))
model = extend(torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Sigmoid(), torch.nn.Flatten(), torch.nn.Linear(32, 3)))
loss_of = extend(torch.nn.CrossEntropyLoss())
for step in range(2):
    loss = loss_of(model(x), y)
    model.zero_grad()
    with backpack(BatchGrad(), Variance(), DiagGGNExact(), DiagHessian(), KFAC(mc_samples=1)):
        loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad / (p.diag_ggn_exact + 1.0)
    print(step, loss.item().hex(), *(each.norm().item().hex() for p in model.parameters() for each in (p.grad_batch, p.variance, p.diag_h, p.kfac[0])))
