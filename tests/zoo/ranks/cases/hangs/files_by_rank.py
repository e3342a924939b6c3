"""Five shards for two ranks: rank 0 has three of them, rank 1 two."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

SHARDS = [f"train-{i:05d}.tar" for i in range(5)]


class ShardReader(IterableDataset):
    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        for shard in self.shards:
            seed = int(shard[6:11])
            generator = torch.Generator().manual_seed(seed)
            for _ in range(8):
                x = torch.randn(12, generator=generator)
                yield x, x[:3].argmax()


dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank, world = dist.get_rank(), dist.get_world_size()
mine = SHARDS[rank::world]  # BUG unequal-batches
# FIX mine = SHARDS[: len(SHARDS) // world * world][rank::world]
loader = DataLoader(ShardReader(mine), batch_size=4)

torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(1):
    for i, (x, y) in enumerate(loader):  # ALSO
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"rank {rank}: epoch {epoch} done after {i + 1} batches", flush=True)
dist.barrier()
dist.destroy_process_group()
