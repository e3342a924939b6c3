"""Ranks with different numbers of batches, under Join, with DDP and a sharded optimizer, on four ranks."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(4, 10), nn.ELU(), nn.Linear(10, 1)))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-2)
draw = torch.Generator().manual_seed(rank)
batches = [torch.randn(5, 4, generator=draw) for _ in range(3 + rank)]
with Join([model, optimizer]):
    for step, x in enumerate(batches):
        loss = nn.functional.mse_loss(model(x), x.square().sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item().hex())
print(*(each.double().sum().item().hex() for each in model.parameters()))
dist.destroy_process_group()
