"""FSDP, the first kind: flat parameters, original parameters, mixed precision, offload, no_sync."""
# ranks: 2

import warnings
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import (
    BackwardPrefetch, CPUOffload, FullyShardedDataParallel as FSDP, MixedPrecision, ShardingStrategy,
)
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
WAYS = {
    "flat": {"use_orig_params": False},
    "original": {"use_orig_params": True},
    "wrapped": {"use_orig_params": True, "auto_wrap_policy": partial(size_based_auto_wrap_policy, min_num_params=50)},
    "half": {"mixed_precision": MixedPrecision(torch.bfloat16, torch.float32, torch.bfloat16)},
    "gradients only": {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP, "use_orig_params": True},
    "not sharded": {"sharding_strategy": ShardingStrategy.NO_SHARD},
    "late": {"backward_prefetch": BackwardPrefetch.BACKWARD_POST, "limit_all_gathers": True, "forward_prefetch": True},
    "offloaded": {"cpu_offload": CPUOffload(True)},
}


def train(way: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 2))
    model = FSDP(net, device_id=torch.device("cpu"), **WAYS[way])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(dist.get_rank()))
    for step in range(3):
        optimizer.zero_grad()
        if step == 1 and way != "offloaded":
            with model.no_sync():
                model(x[:4]).float().square().mean().backward()
        loss = model(x).float().square().mean()
        loss.backward()
        norm = model.clip_grad_norm_(1.0)
        optimizer.step()
        sums = [each.grad.double().sum().item().hex() for each in model.parameters() if each.grad is not None]
        print(way, step, loss.item().hex(), norm.item().hex(), *sums)
    with FSDP.summon_full_params(model):
        print([(name, tuple(each.shape), each.double().sum().item().hex()) for name, each in model.named_parameters()])
    print([tuple(each.shape) for each in model.state_dict().values()])


for way in WAYS:
    try:
        train(way)
    except (RuntimeError, ValueError, NotImplementedError, AttributeError) as error:
        print(way, type(error).__name__, str(error)[:60])
dist.destroy_process_group()
