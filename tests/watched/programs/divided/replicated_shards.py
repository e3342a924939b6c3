"""HSDP: two replicas of two shards each, with fully_shard over a mesh of two dimensions."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
draw = torch.Generator().manual_seed(rank)
for step in range(4):
    for part in range(2):
        x = torch.randn(6, 6, generator=draw)
        model.set_requires_all_reduce(part == 1)
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] * x[:, 1] > 0).long()) / 2
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item().hex(), model[0].weight.to_local().norm().item().hex())
dist.barrier()
dist.destroy_process_group()
