"""Post-local SGD: DDP's hook reduces within a subgroup, and models are averaged every few steps."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 1)))
state = PostLocalSGDState(process_group=None, subgroup=pairs[rank // 2], start_localSGD_iter=2)
model.register_comm_hook(state, post_localSGD_hook)
averager = PeriodicModelAverager(period=3, warmup_steps=2)
optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.05), averager)
draw = torch.Generator().manual_seed(rank)
for step in range(9):
    x = torch.randn(8, 5, generator=draw)
    loss = nn.functional.mse_loss(model(x), x.sin().sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
dist.destroy_process_group()
