"""Ulysses: an all-to-all turns parts of the sequence into parts of the heads, and back."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn


class Exchanged(torch.autograd.Function):
    """Splits one dimension among ranks, and joins another one."""

    @staticmethod
    def forward(ctx, x, split, join):
        ctx.dims = split, join
        size = dist.get_world_size()
        given = [each.contiguous() for each in x.chunk(size, split)]
        taken = [torch.empty_like(each) for each in given]
        dist.all_to_all(taken, given)
        return torch.cat(taken, join)

    @staticmethod
    def backward(ctx, grad):
        split, join = ctx.dims
        return Exchanged.apply(grad, join, split), None, None


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
qkv, out, head = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 4)
parameters = [*qkv.parameters(), *out.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
draw = torch.Generator().manual_seed(2)
try:
    for step in range(3):
        whole = torch.randn(2, 6, 8, generator=draw)
        x = whole.chunk(size, 1)[rank]
        q, k, v = (Exchanged.apply(each.unflatten(-1, (4, 2)).transpose(1, 2), 1, 2) for each in qkv(x).chunk(3, -1))
        h = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = Exchanged.apply(h, 2, 1).transpose(1, 2).flatten(2)
        loss = nn.functional.cross_entropy(head(x + out(h)).flatten(0, 1), x[..., :4].argmax(-1).flatten())
        optimizer.zero_grad()
        loss.backward()
        for each in parameters:
            dist.all_reduce(each.grad)
            each.grad /= size
        optimizer.step()
        print(step, loss.item().hex())
finally:
    dist.destroy_process_group()
