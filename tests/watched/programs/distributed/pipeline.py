"""A pipeline of two stages with the 1F1B schedule."""
# ranks: 2

import warnings

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
part = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh()) if rank == 0 else torch.nn.Linear(6, 2)
stage = PipelineStage(part, rank, 2, torch.device("cpu"))
schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
data = torch.Generator().manual_seed(9)
x, y = torch.randn(8, 6, generator=data), torch.randn(8, 2, generator=data)
for step in range(3):
    optimizer.zero_grad()
    losses = []
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=y, losses=losses)
    optimizer.step()
    grad = next(part.parameters()).grad
    print(step, *(each.item().hex() for each in losses), grad.norm().item().hex())
dist.destroy_process_group()
