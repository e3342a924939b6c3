"""e3nn: an equivariant tensor product with spherical harmonics, trained, and turned to check."""
# needs: e3nn
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from e3nn import o3

torch.manual_seed(0)
irreps_in, irreps_sh, irreps_out = o3.Irreps("4x0e + 2x1o"), o3.Irreps.spherical_harmonics(2), o3.Irreps("2x0e + 1x1o")
product = o3.FullyConnectedTensorProduct(irreps_in, irreps_sh, irreps_out)
linear = o3.Linear(irreps_out, o3.Irreps("1x0e"))
optimizer = torch.optim.Adam([*product.parameters(), *linear.parameters()], lr=1e-2)
x, where, y = irreps_in.randn(12, -1), torch.randn(12, 3), torch.randn(12, 1)
for step in range(4):
    harmonics = o3.spherical_harmonics(irreps_sh, where, normalize=True)
    loss = (linear(product(x, harmonics)) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), product.weight.grad.norm().item().hex())
