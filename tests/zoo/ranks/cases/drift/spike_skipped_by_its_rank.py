"""A step with a spike in the loss is skipped on the rank that saw the spike."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12)))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
running = None
for step in range(7):
    x = torch.randn(8, 12)
    if rank == 1 and step == 4:
        x[3] *= 40  # a corrupt sample
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x)
    loss.backward()
    value = loss.item()
    # ADD spiked = loss.detach().clone()
    # ADD dist.all_reduce(spiked, dist.ReduceOp.MAX)
    # ADD value = spiked.item()
    if running is not None and value > 5 * running:  # BUG branch-by-rank
        print(f"rank {rank}: step {step}, spike {value:.1f}, skipped")
        continue  # ALSO
    running = value if running is None else 0.9 * running + 0.1 * value
    optimizer.step()  # ALSO
    scheduler.step()
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
