"""DiLoCo: inner steps of AdamW on each rank, an outer step of SGD with what all ranks moved."""
# ranks: 2

import copy

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(12, 8), nn.Flatten(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 12))
outer = copy.deepcopy(model)
inner_optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
outer_optimizer = torch.optim.SGD(outer.parameters(), lr=0.7, momentum=0.9, nesterov=True)
draw = torch.Generator().manual_seed(rank)
for sync in range(3):
    for step in range(3):
        tokens = torch.randint(12, (8, 3), generator=draw)
        loss = nn.functional.cross_entropy(model(tokens), (tokens.sum(1)) % 12)
        inner_optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        inner_optimizer.step()
    for slow, fast in zip(outer.parameters(), model.parameters()):
        slow.grad = slow.data - fast.data
        dist.all_reduce(slow.grad)
        slow.grad /= size
    outer_optimizer.step()
    outer_optimizer.zero_grad()
    model.load_state_dict(outer.state_dict())
    print(sync, loss.item().hex(), outer[2].weight.norm().item().hex())
dist.destroy_process_group()
