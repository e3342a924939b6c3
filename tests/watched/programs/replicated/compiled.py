"""A compiled model in DistributedDataParallel, and a step that is compiled as a whole."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 1))
model = torch.compile(DDP(net), backend="aot_eager")
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
draw = torch.Generator().manual_seed(rank)
for step in range(4):
    x = torch.randn(8, 6, generator=draw)
    loss = nn.functional.mse_loss(model(x), x.amax(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
dist.destroy_process_group()
