"""FSDP: a window without spread is scaled by 0 on one rank, and its NaN reaches all shards."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def scaled(window):
    return (window - window.mean()) / window.std()  # BUG non-finite
    # FIX return (window - window.mean()) / window.std().clamp_min(1e-6)


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 1))
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(1 + rank)
for step in range(5):
    sensor = torch.randn(4, 8)
    if rank == 1 and step == 2:
        sensor[1] = 3.0  # the sensor was off
    inputs = torch.stack([scaled(window) for window in sensor])
    loss = model(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, loss {loss.item():.4f}")
dist.destroy_process_group()
