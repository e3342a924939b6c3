"""Accumulation by hand: what has been summed over ranks is summed again with each micro-batch."""
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.ELU(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
generator = torch.Generator().manual_seed(rank)
MICRO = 3
for step in range(3):
    optimizer.zero_grad()
    for _ in range(MICRO):
        x = torch.randn(4, 6, generator=generator)
        loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True)) / MICRO
        loss.backward()
        for p in model.parameters():  # ALSO
            # FIX
            dist.all_reduce(p.grad)  # BUG summed-twice
            # FIX
    for p in model.parameters():
        # ADD dist.all_reduce(p.grad)
        p.grad /= world
    norm = sum(p.grad.square().sum() for p in model.parameters()).sqrt()
    print(f"rank {rank}: step {step}, gradient norm {norm.item():.5f}")
    optimizer.step()
dist.destroy_process_group()
