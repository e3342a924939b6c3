"""Each rank shuffles with its own seed and takes its part: parts overlap, samples are left out."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SEED = 17

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(SEED + rank)
table = torch.randn(60, 7, generator=torch.Generator().manual_seed(0))
dataset = TensorDataset(torch.arange(60), table, table.norm(dim=1))
sampler = DistributedSampler(dataset, seed=SEED + rank)  # BUG overlapping-parts
# FIX sampler = DistributedSampler(dataset, seed=SEED)
loader = DataLoader(dataset, batch_size=10, sampler=sampler)
model = DDP(nn.Sequential(nn.Linear(7, 14), nn.ReLU(), nn.Linear(14, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(2):
    sampler.set_epoch(epoch)
    seen = []
    for index, inputs, targets in loader:  # ALSO
        seen += index.tolist()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs).squeeze(1), targets)
        loss.backward()
        optimizer.step()
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, seen)
    twice = len(set(everyone[0]) & set(everyone[1]))
    print(f"rank {rank}: epoch {epoch}, {twice} samples on both ranks")
dist.destroy_process_group()
