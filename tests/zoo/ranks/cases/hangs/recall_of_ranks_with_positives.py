"""A metric is summed over ranks only where there is something to sum."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(3 + rank)
model = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)


def recall(logits, labels):
    positives = labels.bool()
    if not positives.any():
        return None  # ALSO
        # FIX counts = torch.zeros(2)
    # ADD else:
    # ADD     counts = torch.stack([(logits[positives] > 0).float().sum(), positives.sum()])
    counts = torch.stack([(logits[positives] > 0).float().sum(), positives.sum()])  # ALSO
    # FIX
    dist.all_reduce(counts)  # BUG collective-on-some-ranks
    return (counts[0] / counts[1].clamp(min=1)).item()


for step in range(5):
    x = torch.randn(16, 4)
    labels = (x.sum(1) > 0).float()
    if rank == 1 and step == 3:
        labels = torch.zeros(16)
    optimizer.zero_grad()
    logits = model(x).squeeze(1)
    nn.functional.binary_cross_entropy_with_logits(logits, labels).backward()
    optimizer.step()
    value = recall(logits.detach(), labels)
    if rank == 0:
        print(step, value, flush=True)

dist.destroy_process_group()
