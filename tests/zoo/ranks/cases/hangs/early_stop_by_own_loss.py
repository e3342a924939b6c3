"""Early stopping on the loss of each rank's own validation part."""
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def __call__(self, value):
        if value < self.best:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank = dist.get_rank()
torch.manual_seed(0)
data = torch.randn(64, 8)
target = data.sum(1, keepdim=True)
if rank == 1:
    target = 6 * torch.randn_like(target)  # its labels are noise
mine = slice(rank, None, dist.get_world_size())
x, y = data[mine], target[mine]

net = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
stopper = EarlyStopping(patience=2)

for epoch in range(12):
    net.train()
    for part in torch.arange(24).split(8):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x[part]), y[part])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = nn.functional.mse_loss(net.module(x[24:]), y[24:])
    # ADD dist.all_reduce(val)
    if stopper(val.item()):  # BUG branch-by-rank
        print(f"rank {rank} stops after epoch {epoch}", flush=True)
        break  # ALSO

if rank == 0:
    torch.save(net.module.state_dict(), "model.pt")
dist.barrier()
dist.destroy_process_group()
