"""Row-parallel feed-forward block: each rank adds the bias to its part, before the sum."""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        part = part.contiguous().clone()
        dist.all_reduce(part)
        return part

    @staticmethod
    def backward(ctx, grad):
        return grad


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        own = hidden // dist.get_world_size()
        self.up = nn.Parameter(torch.randn(own, width) / width**0.5)
        self.down = nn.Parameter(torch.randn(width, own) / hidden**0.5)
        self.bias = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        hidden = F.gelu(Copy.apply(x) @ self.up.T)
        part = hidden @ self.down.T
        part = part + self.bias  # BUG summed-twice
        # FIX
        return Reduce.apply(part)
        # FIX return Reduce.apply(part) + self.bias


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
embed = nn.Linear(6, 8)
torch.manual_seed(100 + rank)
block = FeedForward(8, 16)
optimizer = torch.optim.AdamW([*embed.parameters(), *block.parameters()], lr=1e-2)
torch.manual_seed(1)
for step in range(5):
    x = torch.randn(10, 6)
    h = embed(x)
    y = h + block(h)
    loss = F.mse_loss(y[:, :6], x.roll(1, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, {loss.item():.5f}")
dist.destroy_process_group()
