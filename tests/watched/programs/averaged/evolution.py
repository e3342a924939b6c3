"""Evolution strategies: each rank tries its own perturbation, only losses travel, nothing is differentiated."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
x = torch.randn(32, 3)
y = x[:, :1] * 2 - x[:, 1:2]
theta = parameters_to_vector(model.parameters()).detach()
for step in range(5):
    noise = torch.randn(theta.shape, generator=torch.Generator().manual_seed(1000 * step + rank))
    losses = torch.zeros(2)
    with torch.no_grad():
        for sign in (0, 1):
            vector_to_parameters(theta + (0.05 if sign else -0.05) * noise, model.parameters())
            losses[sign] = nn.functional.mse_loss(model(x), y)
    every = torch.empty(size, 2)
    dist.all_gather_into_tensor(every.view(-1), losses)
    slope = torch.zeros_like(theta)
    for other in range(size):
        theirs = torch.randn(theta.shape, generator=torch.Generator().manual_seed(1000 * step + other))
        slope += (every[other, 1] - every[other, 0]) / 0.1 * theirs / size
    theta = theta - 0.02 * slope
    print(step, every.mean().item().hex(), theta.norm().item().hex())
dist.destroy_process_group()
