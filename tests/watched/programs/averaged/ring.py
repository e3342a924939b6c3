"""An all-reduce written as a ring of isend and recv, which averages gradients; four ranks."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = [*tensor.view(-1).tensor_split(size)]
    left, right = (rank - 1) % size, (rank + 1) % size
    for turn in range(size - 1):
        given, taken = chunks[(rank - turn) % size], chunks[(rank - turn - 1) % size]
        arrived = torch.empty_like(taken)
        sending = dist.isend(given.contiguous(), right)
        dist.recv(arrived, left)
        sending.wait()
        taken += arrived
    for turn in range(size - 1):
        given, taken = chunks[(rank - turn + 1) % size], chunks[(rank - turn) % size]
        sending = dist.isend(given.contiguous(), right)
        dist.recv(taken, left)
        sending.wait()


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
draw = torch.Generator().manual_seed(rank)
for step in range(4):
    x = torch.randn(6, 7, generator=draw)
    loss = nn.functional.cross_entropy(model(x), x[:, :3].argmin(1))
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        ring_all_reduce(parameter.grad)
        parameter.grad /= size
    optimizer.step()
    print(step, loss.item().hex(), sum(each.grad.norm().item() for each in model.parameters()).hex())
dist.barrier()
dist.destroy_process_group()
