"""Expert parallel: tokens travel to the rank of their expert by all_to_all_single, and back; four ranks."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Sent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, given, taken):
        ctx.splits = given, taken
        out = x.new_empty(sum(taken), *x.shape[1:])
        dist.all_to_all_single(out, x.contiguous(), taken, given)
        return out

    @staticmethod
    def backward(ctx, grad):
        given, taken = ctx.splits
        return Sent.apply(grad, taken, given), None, None


class Experts(nn.Module):
    """One expert on each rank."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.expert = nn.Sequential(nn.Linear(wide, 2 * wide), nn.GELU(), nn.Linear(2 * wide, wide))

    def forward(self, x, chosen):
        order = chosen.argsort(stable=True)
        given = torch.bincount(chosen, minlength=dist.get_world_size())
        taken = torch.empty_like(given)
        dist.all_to_all_single(taken, given)
        given, taken = given.tolist(), taken.tolist()
        back = Sent.apply(self.expert(Sent.apply(x[order], given, taken)), taken, given)
        return back[order.argsort()]


class Shared(nn.Module):
    def __init__(self, wide: int, size: int) -> None:
        super().__init__()
        self.router, self.head = nn.Linear(wide, size), nn.Linear(wide, 2)


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
shared = Shared(6, size)
torch.manual_seed(1 + rank)
experts = Experts(6)
optimizer = torch.optim.Adam([*shared.parameters(), *experts.parameters()], lr=1e-2)
draw = torch.Generator().manual_seed(rank)
for step in range(4):
    x = torch.randn(16, 6, generator=draw)
    weights = shared.router(x).softmax(1)
    weight, chosen = weights.max(1)
    out = shared.head(x + weight[:, None] * experts(x, chosen))
    balance = size * (weights.mean(0) * torch.bincount(chosen, minlength=size) / len(x)).sum()
    loss = nn.functional.cross_entropy(out, (x[:, 0] > x[:, 1]).long()) + 0.01 * balance
    optimizer.zero_grad()
    loss.backward()
    for each in shared.parameters():
        dist.all_reduce(each.grad)
        each.grad /= size
    for each in experts.parameters():
        if each.grad is not None:
            each.grad /= size
    optimizer.step()
    print(step, loss.item().hex(), torch.bincount(chosen, minlength=size).tolist())
dist.barrier()
dist.destroy_process_group()
