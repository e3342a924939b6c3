"""A square root of zero: the loss is finite on each rank, the gradient of one of them is not."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def pairwise(a, b):
    return ((a[:, None] - b[None]) ** 2).sum(2).sqrt()  # BUG non-finite
    # FIX return ((a[:, None] - b[None]) ** 2).sum(2).clamp(min=1e-12).sqrt()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(20 + rank)
encoder = DDP(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3)))
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for step in range(4):
    anchors, others = torch.randn(6, 5), torch.randn(6, 5)
    if rank == 1 and step == 2:
        others[5] = anchors[5]  # a duplicate in the data
    optimizer.zero_grad()
    a, b = encoder(torch.cat([anchors, others])).chunk(2)
    distances = pairwise(a, b)
    loss = (distances.diagonal() - distances.mean()).relu().mean() + distances.mean()
    loss.backward()  # ALSO
    optimizer.step()
    print(f"rank {rank}: step {step}, loss {loss.item():.4f}")
dist.destroy_process_group()
