"""ZeRO by hand: gradients are reduced and scattered, each rank steps its part, parts are gathered; four ranks."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 14), nn.ReLU(), nn.Linear(14, 2))
shapes = [each.shape for each in model.parameters()]
many = sum(each.numel() for each in model.parameters())
padded = -(-many // size) * size
flat = torch.zeros(padded)
at = 0
for each in model.parameters():
    flat[at : at + each.numel()] = each.detach().view(-1)
    each.data = flat[at : at + each.numel()].view_as(each)
    at += each.numel()
part = nn.Parameter(flat.chunk(size)[rank].clone())
optimizer = torch.optim.AdamW([part], lr=1e-2)
draw = torch.Generator().manual_seed(rank)
for step in range(4):
    x = torch.randn(8, 6, generator=draw)
    loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
    model.zero_grad()
    loss.backward()
    grads = torch.cat([*(each.grad.view(-1) for each in model.parameters()), torch.zeros(padded - many)])
    own = torch.empty(padded // size)
    dist.reduce_scatter_tensor(own, grads)
    part.grad = own / size
    optimizer.step()
    dist.all_gather_into_tensor(flat, part.detach())
    print(step, loss.item().hex(), flat.norm().item().hex())
dist.destroy_process_group()
