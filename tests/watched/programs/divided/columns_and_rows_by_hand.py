"""Tensor parallel as Megatron writes it: a column-parallel and a row-parallel layer, and a split vocabulary."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn


class Copied(torch.autograd.Function):
    """The same input on all ranks, whose gradients are summed."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad


class Summed(torch.autograd.Function):
    """Parts of a sum, one on each rank, summed."""

    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class SplitCrossEntropy(torch.autograd.Function):
    """Cross entropy of logits of which each rank has a part of the classes."""

    @staticmethod
    def forward(ctx, logits, target):
        each = logits.shape[1]
        first = each * dist.get_rank()
        highest = logits.max(1).values
        dist.all_reduce(highest, op=dist.ReduceOp.MAX)
        logits = logits - highest[:, None]
        here = (target >= first) & (target < first + each)
        local = torch.where(here, target - first, 0)
        wanted = torch.where(here, logits.gather(1, local[:, None])[:, 0], 0.0)
        dist.all_reduce(wanted)
        exp = logits.exp()
        total = exp.sum(1)
        dist.all_reduce(total)
        ctx.save_for_backward(exp / total[:, None], here, local)
        return (total.log() - wanted).mean()

    @staticmethod
    def backward(ctx, grad):
        softmax, here, local = ctx.saved_tensors
        found = softmax.clone()
        found[torch.arange(len(local)), local] -= here.float()
        return found * grad / len(local), None


class Block(nn.Module):
    def __init__(self, wide: int, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(wide)
        self.up, self.down = nn.Linear(wide, 4 * wide // size), nn.Linear(4 * wide // size, wide, bias=False)
        self.bias = nn.Parameter(torch.zeros(wide))

    def forward(self, x):
        h = nn.functional.gelu(self.up(Copied.apply(self.norm(x))))
        return x + Summed.apply(self.down(h)) + self.bias


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
words = nn.Embedding(12, 8)
block = Block(8, size)
torch.manual_seed(10 + rank)
for layer in (block.up, block.down):
    layer.reset_parameters()
head = nn.Linear(8, 12 // size, bias=False)
optimizer = torch.optim.Adam([*words.parameters(), *block.parameters(), *head.parameters()], lr=1e-2)
draw = torch.Generator().manual_seed(3)
for step in range(4):
    tokens = torch.randint(12, (10,), generator=draw)
    h = block(words(tokens))
    loss = SplitCrossEntropy.apply(head(Copied.apply(h)), (tokens * 5 + 1) % 12)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), words.weight.grad.norm().item().hex())
dist.destroy_process_group()
