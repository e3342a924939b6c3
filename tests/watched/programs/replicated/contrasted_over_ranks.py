"""Pictures and texts of all ranks are contrasted: features are gathered with their gradients."""
# ranks: 2

import math

import torch
import torch.distributed as dist
import torch.distributed.nn
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pictures = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 8))
        self.texts = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 8))
        self.scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, pictures, texts):
        pair = self.pictures(pictures), self.texts(texts)
        return *(nn.functional.normalize(each, dim=-1) for each in pair), self.scale.exp()


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DDP(Towers())
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
draw = torch.Generator().manual_seed(rank)
for step in range(5):
    pictures = torch.randn(6, 12, generator=draw)
    a, b, scale = model(pictures, pictures[:, ::2].clone())
    every_a, every_b = (torch.cat(torch.distributed.nn.all_gather(each)) for each in (a, b))
    own = torch.arange(6) + 6 * rank
    loss = nn.functional.cross_entropy(scale * a @ every_b.T, own) / 2
    loss = loss + nn.functional.cross_entropy(scale * b @ every_a.T, own) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        model.module.scale.clamp_(0, math.log(100))
    print(step, loss.item().hex(), scale.item().hex())
dist.destroy_process_group()
