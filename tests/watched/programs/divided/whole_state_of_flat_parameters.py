"""FSDP of the first kind: blocks wrapped, the whole state saved by rank 0 and loaded by all, then trained on."""
# ranks: 2

import warnings
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
rank = dist.get_rank()
policy = partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer})


def made(seed: int):
    torch.manual_seed(seed)
    blocks = [nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(2)]
    net = nn.Sequential(nn.Embedding(12, 8), *blocks, nn.Linear(8, 12))
    model = FSDP(net, device_id=torch.device("cpu"), auto_wrap_policy=policy, use_orig_params=True)
    return model, torch.optim.AdamW(model.parameters(), lr=5e-3)


def train(model, optimizer, steps: int) -> None:
    draw = torch.Generator().manual_seed(rank)
    for step in range(steps):
        tokens = torch.randint(12, (3, 6), generator=draw)
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        print(step, loss.item().hex(), mean.item().hex())


model, optimizer = made(0)
train(model, optimizer, 3)
with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):
    state = {name: each.clone() for name, each in model.state_dict().items()}
print(sorted(state)[:2], len(state))
held = [state if rank == 0 else None]
dist.broadcast_object_list(held, src=0)
other, fresh = made(1)
with FSDP.state_dict_type(other, StateDictType.FULL_STATE_DICT):
    other.load_state_dict(held[0])
train(other, fresh, 2)
dist.barrier()
dist.destroy_process_group()
