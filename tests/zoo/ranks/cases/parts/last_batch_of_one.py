"""One rank's last batch has one sample, which batch norm refuses."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset, TensorDataset

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
x = torch.randn(35, 8)
dataset = TensorDataset(x, x[:, :2].argmax(1))
lengths = [18, 17]
first = sum(lengths[:rank])
part = Subset(dataset, range(first, first + lengths[rank]))
loader = DataLoader(part, batch_size=8, shuffle=True)  # BUG unequal-batches
# FIX loader = DataLoader(part, batch_size=8, shuffle=True, drop_last=True)
model = DDP(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for inputs, labels in loader:  # ALSO
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)  # ALSO
        loss.backward()
        optimizer.step()
    print(f"rank {rank}: epoch {epoch}, loss {loss.item():.5f}", flush=True)
dist.destroy_process_group()
