"""A shuffled loader without a sampler for ranks: with one seed, all ranks see the same batches."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(42)
x = torch.randn(48, 10)
dataset = TensorDataset(x, x[:, :4].argmax(1))
loader = DataLoader(dataset, batch_size=8, shuffle=True)  # BUG same-batches
# FIX sampler = DistributedSampler(dataset)
# FIX loader = DataLoader(dataset, batch_size=8, sampler=sampler)

model = DDP(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    # ADD sampler.set_epoch(epoch)
    for inputs, labels in loader:  # ALSO
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
    print(f"rank {rank}: epoch {epoch}, loss {loss.item():.5f}")
dist.destroy_process_group()
