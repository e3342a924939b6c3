"""Gradients are averaged asynchronously, and stepped before the sums have arrived."""
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(rank)


def average_in_the_background():
    handles = []
    for p in model.parameters():
        p.grad /= world
        handles.append(dist.all_reduce(p.grad, async_op=True))  # ALSO
    return handles


for step in range(3):
    x = torch.randn(16, 256, generator=generator)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x.roll(1, 1))
    loss.backward()
    handles = average_in_the_background()
    # ADD for handle in handles:
    # ADD     handle.wait()
    optimizer.step()  # BUG not-waited
    dist.barrier()
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
