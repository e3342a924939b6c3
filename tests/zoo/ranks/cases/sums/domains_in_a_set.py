"""The mean loss of each domain over ranks: domains are gone through in the order of a set."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

DOMAINS = [8, 0, 16]

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DDP(nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
history = []
for step in range(6):
    domain = DOMAINS[(step + rank) % 3]
    x = torch.randn(8, 5)
    optimizer.zero_grad()
    loss = nn.functional.l1_loss(model(x), domain * torch.ones(8, 1))
    loss.backward()
    optimizer.step()
    history.append((domain, loss.item()))

seen = set(domain for domain, _ in history)
for domain in seen:  # BUG order-of-collectives
# FIX for domain in sorted(seen):
    losses = torch.tensor([loss for at, loss in history if at == domain])
    total = losses.sum()
    dist.all_reduce(total)  # ALSO
    print(f"rank {rank}: domain {domain} {total.item() / (2 * world):.2f}", flush=True)
dist.destroy_process_group()
