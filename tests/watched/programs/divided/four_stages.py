"""A pipeline of four stages with the GPipe schedule, made from one model; four ranks."""
# ranks: 4

import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
stages = [nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU()) for _ in range(size - 1)] + [nn.Linear(8, 3)]
own = stages[rank]
stage = PipelineStage(own, rank, size, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.cross_entropy)
optimizer = torch.optim.AdamW(own.parameters(), lr=1e-2)
draw = torch.Generator().manual_seed(4)
for step in range(3):
    x = torch.randn(8, 8, generator=draw)
    y = x[:, :3].argmax(1)
    optimizer.zero_grad()
    losses = []
    if rank == 0:
        schedule.step(x)
    elif rank == size - 1:
        schedule.step(target=y, losses=losses)
    else:
        schedule.step()
    optimizer.step()
    print(step, *(each.item().hex() for each in losses), own[0].weight.grad.norm().item().hex() if rank < 3 else "")
dist.barrier()
dist.destroy_process_group()
