"""An IterableDataset reads the whole stream on each rank."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Tokens(IterableDataset):
    def __init__(self, length, window=9):
        generator = torch.Generator().manual_seed(0)
        self.stream = torch.randint(0, 25, (length,), generator=generator)
        self.window = window

    def __iter__(self):
        for first in range(0, len(self.stream) - self.window, self.window):  # BUG same-batches
        # FIX rank, world = dist.get_rank(), dist.get_world_size()
        # FIX stride = self.window * world
        # FIX for first in range(rank * self.window, len(self.stream) - self.window, stride):
            part = self.stream[first : first + self.window]
            yield part[:-1], part[1:]


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Embedding(25, 12), nn.Linear(12, 25)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = DataLoader(Tokens(9 * 33), batch_size=4)  # ALSO
for epoch in range(1):
    for inputs, targets in loader:  # ALSO
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).transpose(1, 2), targets)
        loss.backward()
        optimizer.step()
        print(f"rank {rank}: loss {loss.item():.5f}")
dist.destroy_process_group()
