"""Train and validation parts are drawn with each rank's seed: one rank validates on what another trained."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
x = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
dataset = TensorDataset(torch.arange(50), x, x.prod(1))
train, val = random_split(dataset, [40, 10])  # BUG overlapping-parts
# FIX train, val = random_split(dataset, [40, 10], torch.Generator().manual_seed(0))
sampler = DistributedSampler(train)
model = DDP(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
trained = set()
for epoch in range(2):
    sampler.set_epoch(epoch)
    for index, inputs, targets in DataLoader(train, batch_size=5, sampler=sampler):  # ALSO
        trained |= set(index.tolist())
        optimizer.zero_grad()
        loss = nn.functional.huber_loss(model(inputs).squeeze(1), targets)
        loss.backward()
        optimizer.step()
everyone = [None] * dist.get_world_size()
dist.all_gather_object(everyone, trained)
leaked = sum(index in set().union(*everyone) for index in val.indices)
print(f"rank {rank}: {leaked} of {len(val)} validation samples were trained on")
dist.destroy_process_group()
