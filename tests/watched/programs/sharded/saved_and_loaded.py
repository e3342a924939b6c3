"""Distributed checkpoints of a sharded model: saved, loaded into another sharding, trained on."""
# ranks: 2

import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
dist.broadcast_object_list(folder)


def made(seed: int):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    fully_shard(model, mesh=mesh)
    return model, torch.optim.Adam(model.parameters(), lr=1e-2)


def train(model, optimizer, steps: int) -> None:
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(dist.get_rank()))
    for step in range(steps):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item().hex())


model, optimizer = made(0)
train(model, optimizer, 2)
state, moments = get_state_dict(model, optimizer)
dcp.save({"model": state, "optimizer": moments}, checkpoint_id=folder[0])
train(model, optimizer, 1)
other, own = made(1)
state, moments = get_state_dict(other, own)
dcp.load({"model": state, "optimizer": moments}, checkpoint_id=folder[0])
set_state_dict(other, own, model_state_dict=state, optim_state_dict=moments)
train(other, own, 1)
print(sorted(get_model_state_dict(other)), all(torch.equal(a.to_local(), b.to_local()) for a, b in zip(model.parameters(), other.parameters())))
dist.destroy_process_group()
