"""DistributedDataParallel on two ranks, with no_sync, a communication hook and SyncBatchNorm's kin."""
# ranks: 2

import os

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(8, 6, generator=torch.Generator().manual_seed(rank + 1))
for step in range(4):
    optimizer.zero_grad()
    with model.no_sync():
        (model(x[:4]).square().mean() / 2).backward()
    loss = model(x[4:]).square().mean() / 2
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.module[0].weight.grad.norm().item().hex())
other = DistributedDataParallel(torch.nn.Linear(6, 2))
other.register_comm_hook(None, fp16_compress_hook)
other(x).sum().backward()
print(other.module.weight.grad.norm().item().hex(), os.environ["LOCAL_RANK"])
dist.destroy_process_group()
