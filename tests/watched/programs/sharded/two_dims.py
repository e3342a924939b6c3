"""Four ranks that are only simulated: FSDP2 over tensor parallel, and replicated shards (HSDP)."""
# true: GS803 nobody answers in the group, so that half of what a ReLU gets is made up

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())


def train(way: str, model: nn.Module) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    for step in range(2):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        print(way, step, *(tuple(each.grad.shape) for each in model.parameters()))
        print(*(each.grad.to_local().shape for each in model.parameters()), model[0].weight.placements)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))


mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
both = parallelize_module(net(), mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(both[0], mesh=mesh["data"])
train("both", fully_shard(both, mesh=mesh["data"]))
train("replicated", fully_shard(net(), mesh=mesh))
dist.destroy_process_group()
