"""fully_shard: mixed precision, kept shards, offload, clipping, accumulation, prefetching by hand."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
HALF = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
WAYS = {
    "plain": {}, "half": {"mp_policy": HALF}, "kept": {"reshard_after_forward": False},
    "in twos": {"reshard_after_forward": 2}, "offloaded": {"offload_policy": CPUOffloadPolicy(pin_memory=False)},
}


class Block(nn.Module):
    def __init__(self, wide: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(wide), nn.Linear(wide, 3 * wide), nn.Linear(3 * wide, wide)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


def train(way: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), Block(7), Block(7), nn.Linear(7, 2))
    for layer in model[1:3]:
        fully_shard(layer, mesh=mesh, **WAYS[way])
    fully_shard(model, mesh=mesh, **WAYS[way])
    model[1].set_modules_to_forward_prefetch([model[2]])
    model[2].set_modules_to_backward_prefetch([model[1]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(dist.get_rank()))
    for step in range(3):
        optimizer.zero_grad()
        for part in range(2):
            model.set_requires_gradient_sync(part == 1)
            model.set_is_last_backward(part == 1)
            if step == 2:
                model.unshard()
            loss = model(x[4 * part : 4 * part + 4]).float().square().mean()
            loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5).full_tensor()
        optimizer.step()
        sums = [each.grad.to_local().double().sum().item().hex() for each in model.parameters()]
        print(way, step, loss.item().hex(), norm.item().hex(), *sums)
    print([each.full_tensor().double().sum().item().hex() for each in model.parameters()])


for way in WAYS:
    try:
        train(way)
    except (RuntimeError, ValueError, NotImplementedError, AttributeError) as error:
        print(way, type(error).__name__, str(error)[:60])
dist.destroy_process_group()
