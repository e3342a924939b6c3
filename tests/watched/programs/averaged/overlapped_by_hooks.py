"""Each gradient is reduced as soon as it is accumulated, by hooks, while the backward goes on."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU()) for _ in range(3)], nn.Linear(8, 2))
works = []


def reduce(parameter: torch.Tensor) -> None:
    parameter.grad.div_(size)
    works.append(dist.all_reduce(parameter.grad, async_op=True))


for each in model.parameters():
    each.register_post_accumulate_grad_hook(reduce)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
draw = torch.Generator().manual_seed(rank)
for step in range(4):
    x = torch.randn(8, 8, generator=draw)
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > x[:, 1]).long())
    optimizer.zero_grad()
    loss.backward()
    for work in works:
        work.wait()
    works.clear()
    optimizer.step()
    print(step, loss.item().hex(), model[-1].weight.grad.norm().item().hex())
dist.destroy_process_group()
