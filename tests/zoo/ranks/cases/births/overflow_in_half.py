"""Logits in float16 overflow on the rank with the longer sequences."""
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
query, key = nn.Linear(8, 8), nn.Linear(8, 8)
parameters = [*query.parameters(), *key.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.01)
generator = torch.Generator().manual_seed(rank)


def scores(x):
    q, k = query(x), key(x)
    return (q.half() @ k.half().transpose(1, 2)).float()  # BUG non-finite
    # FIX return q @ k.transpose(1, 2)


for step in range(4):
    x = torch.randn(2, 6, 8, generator=generator)
    if rank == 1 and step == 1:
        x *= 400  # values that were not normalised
    optimizer.zero_grad()
    attention = scores(x).softmax(-1)
    loss = (attention @ x / x.abs().max() - 1).square().mean()
    loss.backward()
    for p in parameters:
        dist.all_reduce(p.grad)
        p.grad /= world
    optimizer.step()
    print(f"rank {rank}: step {step}, loss {loss.item():.4f}")
dist.destroy_process_group()
