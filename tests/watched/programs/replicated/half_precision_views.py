"""bfloat16 autocast, gradients that are views of buckets, a compressed reduction, gradients kept as zeros."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(2, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(80, 3))
model = DDP(net, gradient_as_bucket_view=True, bucket_cap_mb=0.001)
model.register_comm_hook(None, fp16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
draw = torch.Generator().manual_seed(rank + 7)
for step in range(5):
    x = torch.randn(6, 2, 10, generator=draw)
    y = x.mean((1, 2)).mul(4).round().clamp(-1, 1).long() + 1
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast("cpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.module[0].weight.grad.norm().item().hex())
dist.destroy_process_group()
