"""Decentralized training: each rank averages its parameters with those of its neighbors only."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
draw = torch.Generator().manual_seed(rank)
left, right = (rank - 1) % size, (rank + 1) % size


@torch.no_grad()
def mix() -> None:
    for parameter in model.parameters():
        from_left, from_right = torch.empty_like(parameter), torch.empty_like(parameter)
        mine = parameter.detach().clone()
        exchange = [
            dist.P2POp(dist.isend, mine, left), dist.P2POp(dist.isend, mine, right),
            dist.P2POp(dist.irecv, from_left, left), dist.P2POp(dist.irecv, from_right, right),
        ]
        for work in dist.batch_isend_irecv(exchange):
            work.wait()
        parameter.copy_((mine + from_left + from_right) / 3)


for step in range(6):
    x = torch.randn(8, 4, generator=draw) + 0.1 * rank
    loss = nn.functional.mse_loss(model(x), x.norm(dim=1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mix()
    print(step, loss.item().hex())
dist.barrier()
dist.destroy_process_group()
