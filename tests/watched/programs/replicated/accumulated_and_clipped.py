"""Gradients of several micro-batches are accumulated under no_sync, scaled and clipped, on four ranks."""
# ranks: 4

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.LayerNorm(32), nn.Linear(32, 1)))
decayed = [each for each in model.parameters() if each.ndim > 1]
plain = [each for each in model.parameters() if each.ndim <= 1]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
draw = torch.Generator().manual_seed(100 + rank)
PARTS = 3
for step in range(4):
    total = torch.zeros(())
    for part in range(PARTS):
        x = torch.randn(6, 10, generator=draw)
        y = x[:, :3].prod(1, keepdim=True)
        together = part == PARTS - 1
        with contextlib.nullcontext() if together else model.no_sync():
            loss = nn.functional.smooth_l1_loss(model(x), y) / PARTS
            loss.backward()
        total += loss.detach()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    dist.all_reduce(total)
    print(step, (total / dist.get_world_size()).item().hex(), norm.item().hex(), schedule.get_last_lr())
dist.destroy_process_group()
