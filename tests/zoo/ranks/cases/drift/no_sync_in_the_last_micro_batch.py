"""Gradient accumulation: the micro-batch that should average the gradients is in no_sync, too."""
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

ACCUMULATE = 4

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(10, 20), nn.GELU(), nn.Linear(20, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

micro = 0
for step in range(4):
    optimizer.zero_grad()
    for _ in range(ACCUMULATE):
        micro += 1
        x = torch.randn(4, 10)
        context = model.no_sync() if (micro + 1) % ACCUMULATE else nullcontext()  # BUG not-averaged
        # FIX context = model.no_sync() if micro % ACCUMULATE else nullcontext()
        with context:  # ALSO
            out = model(x)
            loss = nn.functional.mse_loss(out, x.amax(1, keepdim=True)) / ACCUMULATE
            loss.backward()  # ALSO
    optimizer.step()
    print(f"rank {rank}: step {step}, loss {loss.item() * ACCUMULATE:.4f}")
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
