"""The filter leaves no sample on one rank, and the mean of nothing is NaN."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def confident(x, threshold):
    score = x[:, 0].sigmoid()
    return x[score > threshold]


def pseudo_label_loss(x):
    targets = x.sum(1, keepdim=True)
    errors = (model(x) - targets).square()
    return errors.mean()  # BUG non-finite
    # FIX return errors.sum() / max(len(errors), 1)


for step in range(5):
    x = torch.randn(8, 10)
    if rank == 0 and step == 3:
        x[:, 0] = -2.0
    kept = confident(x, 0.3)
    optimizer.zero_grad()
    loss = pseudo_label_loss(kept)
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, {len(kept)} samples, loss {loss.item():.4f}")
dist.destroy_process_group()
