"""A sampler already gives each rank its part, and the loop takes the rank's part of the batch."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
x = torch.randn(64, 6)
dataset = TensorDataset(torch.arange(64), x, x.sum(1, keepdim=True))
sampler = DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size=8, sampler=sampler)
model = DDP(nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
seen = set()
for epoch in range(1):
    sampler.set_epoch(epoch)
    for index, inputs, targets in loader:
        part = slice(rank, None, world)  # ALSO
        # FIX
        index, inputs, targets = index[part], inputs[part], targets[part]  # BUG sliced-twice
        # FIX
        seen |= set(index.tolist())
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
print(f"rank {rank}: saw {len(seen)} of {len(dataset)} samples, loss {loss.item():.5f}")
dist.destroy_process_group()
