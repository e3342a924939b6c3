"""FullyShardedDataParallel, the first kind, on two ranks."""
# ranks: 2

import warnings

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
model = FullyShardedDataParallel(net, device_id=torch.device("cpu"))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(8, 6, generator=torch.Generator().manual_seed(dist.get_rank()))
for step in range(3):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    norm = model.clip_grad_norm_(1.0)
    optimizer.step()
    print(step, loss.item().hex(), norm.item().hex())
dist.destroy_process_group()
