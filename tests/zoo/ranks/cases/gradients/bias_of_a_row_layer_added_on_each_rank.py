"""Row-parallel linear: every rank adds the whole bias to its part of the sum."""
import torch
import torch.distributed as dist
import torch.nn as nn


class SumOfRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, partial):
        total = partial.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad


class RowParallelLinear(nn.Module):
    def __init__(self, full):
        super().__init__()
        rank, world = dist.get_rank(), dist.get_world_size()
        self.weight = nn.Parameter(full.weight.detach().chunk(world, 1)[rank].clone())
        self.bias = nn.Parameter(full.bias.detach().clone())

    def forward(self, part):
        partial = nn.functional.linear(part, self.weight, self.bias)  # BUG summed-twice
        # FIX partial = nn.functional.linear(part, self.weight)
        return SumOfRanks.apply(partial)
        # FIX return SumOfRanks.apply(partial) + self.bias


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
full = nn.Linear(8, 3)
nn.init.constant_(full.bias, 0.5)
layer = RowParallelLinear(full)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
for step in range(4):
    x = torch.randn(6, 8)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(layer(x.chunk(world, 1)[rank]), x[:, :3])
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, {loss.item():.5f}")
dist.destroy_process_group()
