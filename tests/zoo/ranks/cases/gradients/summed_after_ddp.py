"""Code for hand-written averaging is kept after the model was wrapped in DDP: sums of averages."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DDP(nn.LSTM(5, 10, batch_first=True))
head = DDP(nn.Linear(10, 1))
params = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(params, lr=0.05)


def sync(params):
    for p in params:
        dist.all_reduce(p.grad)  # BUG averaged-twice


for step in range(4):
    x = torch.randn(6, 7, 5)
    optimizer.zero_grad()
    out, _ = model(x)
    loss = nn.functional.mse_loss(head(out[:, -1]).squeeze(1), x.sum((1, 2)))
    loss.backward()
    sync(params)  # ALSO
    # FIX
    optimizer.step()
    print(f"rank {rank}: step {step}, norm {nn.utils.get_total_norm([p.grad for p in params]):.5f}")
dist.destroy_process_group()
