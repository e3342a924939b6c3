"""Only rank 0 has the teacher, whose answers it broadcasts; all ranks train students on their part."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
student = DDP(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
if rank == 0:
    teacher = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)).eval()
    teacher.requires_grad_(False)
data = torch.Generator().manual_seed(5)
for step in range(5):
    x = torch.randn(8, 6, generator=data)
    answers = torch.empty(8, 3)
    if rank == 0:
        with torch.inference_mode():
            answers.copy_(teacher(x))
    dist.broadcast(answers, src=0)
    own = slice(rank * 4, rank * 4 + 4)
    logits = student(x[own])
    loss = nn.functional.kl_div(logits.log_softmax(1), answers[own].softmax(1), reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
dist.destroy_process_group()
