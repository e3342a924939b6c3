"""Activation checkpointing inside FSDP of both kinds, and a hook of the program on a shard."""
# ranks: 2

import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.utils.checkpoint import checkpoint

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 12), nn.Linear(12, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Recomputed(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def train(kind: str, model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(dist.get_rank()))
    for step in range(2):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        print(kind, step, loss.item().hex(), *(_sum(each.grad) for each in model.parameters()))


def _sum(grad: torch.Tensor | None) -> str:
    return "none" if grad is None else getattr(grad, "_local_tensor", grad).double().sum().item().hex()


torch.manual_seed(0)
second = Recomputed(Block(), Block())
for block in second:
    fully_shard(block, mesh=mesh)
fully_shard(second, mesh=mesh)
seen = []
second[0].up.weight.register_hook(lambda grad: seen.append(type(grad).__name__))
second[0].up.weight.register_post_accumulate_grad_hook(lambda leaf: seen.append(tuple(leaf.grad.shape)))
train("second", second)
print(seen)
first = nn.Sequential(Block(), Block())
first = FSDP(first, device_id=torch.device("cpu"), use_orig_params=True, auto_wrap_policy=ModuleWrapPolicy({Block}))
apply_activation_checkpointing(first, check_fn=lambda module: isinstance(module, Block))
train("first", first)
dist.destroy_process_group()
