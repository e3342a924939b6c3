"""Two pipeline stages: the second one waits for a micro-batch more than the first one sends."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank = dist.get_rank()
torch.manual_seed(rank)
BATCH, MICRO, WIDTH = 12, 4, 8
stage = nn.Linear(WIDTH, WIDTH) if rank == 0 else nn.Linear(WIDTH, 1)
optimizer = torch.optim.SGD(stage.parameters(), lr=0.05)


def first_stage(x):
    outputs = []
    for part in x.split(MICRO):
        out = stage(part).relu()
        dist.send(out.detach(), dst=1)
        outputs.append(out)
    for out in outputs:
        grad = torch.empty_like(out)
        dist.recv(grad, src=1)  # ALSO
        out.backward(grad)


def last_stage():
    received = []
    for _ in range(BATCH // MICRO + 1):  # BUG send-without-recv
    # FIX for _ in range(BATCH // MICRO):
        arrived = torch.empty(MICRO, WIDTH)
        dist.recv(arrived, src=0)  # ALSO
        received.append(arrived.requires_grad_())
    for arrived in received:
        loss = stage(arrived).square().mean() / len(received)
        loss.backward()
        dist.send(arrived.grad, dst=0)
    return loss.item()


for step in range(2):
    optimizer.zero_grad()
    if rank == 0:
        first_stage(torch.randn(BATCH, WIDTH))
    else:
        print(f"step {step}: {last_stage():.4f}", flush=True)
    optimizer.step()
dist.destroy_process_group()
