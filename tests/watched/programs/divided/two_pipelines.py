"""Two pipelines of two stages (1F1B), whose gradients are averaged: pipeline and data parallel."""
# ranks: 4

import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "stage"))
data, place = mesh.get_group("data"), mesh.get_local_rank("stage")
torch.manual_seed(place)
own = nn.Sequential(nn.Linear(6, 6), nn.Tanh()) if place == 0 else nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
stage = PipelineStage(own, place, 2, torch.device("cpu"), group=mesh.get_group("stage"))
schedule = Schedule1F1B(stage, n_microbatches=3, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.SGD(own.parameters(), lr=0.05, momentum=0.9)
draw = torch.Generator().manual_seed(mesh.get_local_rank("data"))
for step in range(4):
    x = torch.randn(6, 6, generator=draw)
    optimizer.zero_grad()
    losses = []
    if place == 0:
        schedule.step(x)
    else:
        schedule.step(target=x.mean(1, keepdim=True), losses=losses)
    for each in own.parameters():
        dist.all_reduce(each.grad, group=data)
        each.grad /= 2
    optimizer.step()
    print(step, *(each.item().hex() for each in losses), own[0].weight.grad.norm().item().hex())
dist.barrier()
dist.destroy_process_group()
