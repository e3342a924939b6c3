"""Rank 0 sends the teacher's weights before the losses are summed; the others sum first."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
student, teacher = nn.Linear(8, 8), nn.Linear(8, 8)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)


def share(module):
    for tensor in module.state_dict().values():
        dist.broadcast(tensor, src=0)  # ALSO


def average_gradients(module):
    for parameter in module.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world


for step in range(4):
    x = torch.randn(16, 8) + rank
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(student(x), teacher(x).detach())
    loss.backward()
    average_gradients(student)
    optimizer.step()
    logged = loss.detach().clone()
    if rank == 0:
        with torch.no_grad():
            for old, new in zip(teacher.parameters(), student.parameters()):
                old.lerp_(new, 0.1)
        share(teacher)  # BUG order-of-collectives
        # FIX
        dist.all_reduce(logged)  # ALSO
        # FIX dist.all_reduce(logged)
        # FIX share(teacher)
        print(f"step {step}: {logged.item() / world:.4f}", flush=True)
    else:
        dist.all_reduce(logged)  # ALSO
        share(teacher)  # ALSO

dist.destroy_process_group()
