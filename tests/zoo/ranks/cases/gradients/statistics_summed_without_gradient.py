"""Batch norm over all ranks by hand: the mean is summed in place, so no gradient passes there."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.parallel import DistributedDataParallel as DDP


class CrossRankNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        sums = torch.stack([x.sum(0), x.square().sum(0)])
        # ADD sums = all_reduce(sums)
        sums = sums.data  # ALSO
        # FIX
        dist.all_reduce(sums)  # BUG no-gradient-through
        # FIX
        count = len(x) * dist.get_world_size()
        mean = sums[0] / count
        var = sums[1] / count - mean.square()
        return (x - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(6, 12), CrossRankNorm(12), nn.ReLU(), nn.Linear(12, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 6) + 2 * rank
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > x[:, 1]).long())
    loss.backward()
    optimizer.step()
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
