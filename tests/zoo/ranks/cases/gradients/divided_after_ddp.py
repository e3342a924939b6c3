"""DDP averages the gradients, and the loop divides them by the world size again."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for step in range(4):
    x = torch.randn(8, 10)
    y = x[:, :3].argmax(1)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    for p in model.parameters():  # ALSO
    # FIX
        p.grad /= world  # BUG averaged-twice
        # FIX
    optimizer.step()
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
