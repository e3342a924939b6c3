"""Contrastive learning: the backward of the gather returns only what this rank's loss says."""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, own):
        pieces = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, own)
        return torch.cat(pieces)

    @staticmethod
    def backward(ctx, grad):
        # ADD dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size())[dist.get_rank()]  # BUG no-gradient-through


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 8))

    def forward(self, x):
        return F.normalize(self.trunk(x), dim=1)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(Encoder())
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(5):
    x = torch.randn(6, 10)
    one = model(x + 0.1 * torch.randn_like(x))
    two = model(x + 0.1 * torch.randn_like(x))
    every = Gather.apply(two)  # ALSO
    labels = torch.arange(6) + 6 * rank
    loss = F.cross_entropy(one @ every.T / 0.2, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, {loss.item():.5f}")
dist.destroy_process_group()
