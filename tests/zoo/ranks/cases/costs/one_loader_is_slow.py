"""One rank decodes its images anew in each epoch; the other rank has them cached and waits."""
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, rank):
        self.cached = rank == 0
        # FIX self.cached = True
        self.images = torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(rank))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        if not self.cached:
            time.sleep(0.03)  # BUG slow-rank
        return self.images[index], index % 2


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(Images(rank), batch_size=4)  # ALSO
began = time.monotonic()
loading = 0.0
for epoch in range(2):
    asked = time.monotonic()
    for x, y in loader:  # ALSO
        loading += time.monotonic() - asked
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        asked = time.monotonic()
print(f"rank {rank}: {loading:.2f} s of {time.monotonic() - began:.2f} s in loading")
dist.destroy_process_group()
