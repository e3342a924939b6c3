"""A moving average of the weights on all ranks, and a stop on which all ranks agree."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)))
slow = AveragedModel(model.module, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
draw = torch.Generator().manual_seed(rank)
held_out = torch.randn(12, 4, generator=torch.Generator().manual_seed(50 + rank))


@torch.no_grad()
def error() -> float:
    slow.eval()
    found = nn.functional.mse_loss(slow(held_out), held_out.abs().sum(1, keepdim=True))
    dist.all_reduce(found, op=dist.ReduceOp.SUM)
    return found.item() / dist.get_world_size()


best, bad = float("inf"), 0
for epoch in range(8):
    x = torch.randn(16, 4, generator=draw)
    loss = nn.functional.mse_loss(model(x), x.abs().sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    slow.update_parameters(model.module)
    now = error()
    bad = 0 if now < best - 0.5 else bad + 1
    best = min(now, best)
    stop = torch.tensor(float(bad >= 2 and rank == 0))
    dist.broadcast(stop, src=0)
    print(epoch, loss.item().hex(), now.hex(), bool(stop))
    if stop:
        break
dist.destroy_process_group()
