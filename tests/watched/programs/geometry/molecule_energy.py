"""e3nn: an energy of atoms made of spherical harmonics, whose forces are its gradient, fitted together."""
# needs: e3nn
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from e3nn import nn, o3
from e3nn.math import soft_one_hot_linspace

torch.manual_seed(0)
irreps = o3.Irreps("4x0e + 2x1o")
harmonics = o3.Irreps.spherical_harmonics(1)


class Energy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.product = o3.FullyConnectedTensorProduct("2x0e", harmonics, irreps, shared_weights=False)
        self.radial = nn.FullyConnectedNet([4, 8, self.product.weight_numel], torch.nn.functional.silu)
        self.gate = nn.NormActivation(irreps, torch.sigmoid)
        self.readout = o3.Linear(irreps, "1x0e")

    def forward(self, kinds, positions):
        count = len(positions)
        source, target = torch.cartesian_prod(torch.arange(count), torch.arange(count)).T
        source, target = source[source != target], target[source != target]
        edges = positions[target] - positions[source]
        lengths = edges.norm(dim=1)
        shells = soft_one_hot_linspace(lengths, 0.0, 4.0, 4, basis="smooth_finite", cutoff=True) * 2
        messages = self.product(kinds[source], o3.spherical_harmonics(harmonics, edges, normalize=True, normalization="component"), self.radial(shells))
        summed = torch.zeros(count, irreps.dim).index_add(0, target, messages)
        return self.readout(self.gate(summed)).sum()


model = Energy()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
kinds = torch.nn.functional.one_hot(torch.tensor([0, 1, 0, 1, 1]), 2).float()
positions = torch.randn(5, 3)
forces = torch.randn(5, 3) * 0.1
for step in range(3):
    moved = positions.clone().requires_grad_()
    energy = model(kinds, moved)
    (slope,) = torch.autograd.grad(energy, moved, create_graph=True)
    loss = (energy + 1).square() + (forces + slope).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, energy.item().hex(), loss.item().hex(), model.radial.layer0.weight.grad.norm().item().hex())
turn = o3.rand_matrix()
with torch.no_grad():
    print(bool((model(kinds, positions) - model(kinds, positions @ turn.T)).abs() < 1e-3))
