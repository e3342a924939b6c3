"""opacus: DP-SGD, gradients of each sample by hooks, clipped, with noise from a generator."""
# needs: opacus
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from opacus import PrivacyEngine

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(32, 5), torch.randint(0, 2, (32,)))
loader = torch.utils.data.DataLoader(data, batch_size=8)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False, noise_generator=torch.Generator().manual_seed(5),
)
for x, y in loader:
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    sizes = [tuple(p.grad_sample.shape) for p in model.parameters()]
    optimizer.step()
    print(loss.item().hex(), sizes[0], next(model.parameters()).grad.norm().item().hex())
