"""ZeroRedundancyOptimizer on two ranks, and collectives that carry gradients."""
# ranks: 2

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as collectives
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.SiLU(), torch.nn.Linear(7, 1)))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-2)
x = torch.randn(6, 5, generator=torch.Generator().manual_seed(rank))
for step in range(3):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.module[0].weight.grad.norm().item().hex())
w = torch.full((3,), rank + 1.0, requires_grad=True)
collectives.all_reduce(w * w).sum().backward()
print(w.grad.tolist(), sum(each.sum() for each in collectives.all_gather(w.detach())).item())
dist.destroy_process_group()
