"""Eight ranks, each with an eighth of the parameters, in fully_shard with half precision."""
# ranks: 8

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 3))
half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh, mp_policy=half)
fully_shard(model, mesh=mesh, mp_policy=half)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
draw = torch.Generator().manual_seed(rank)
for step in range(3):
    x = torch.randn(4, 8, generator=draw)
    loss = nn.functional.cross_entropy(model(x).float(), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
    optimizer.step()
    print(step, loss.item().hex(), norm.item().hex())
dist.barrier()
dist.destroy_process_group()
