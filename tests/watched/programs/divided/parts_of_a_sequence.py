"""Context parallel: each rank has a part of the sequence, and gathers keys and values of the others."""
# ranks: 4

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as collectives
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Attention(nn.Module):
    def __init__(self, wide: int = 8) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(16, wide), nn.Embedding(16, wide)
        self.qkv, self.out, self.head = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide), nn.Linear(wide, 16)

    def forward(self, tokens):
        length, rank = tokens.shape[1], dist.get_rank()
        places = torch.arange(length) + length * rank
        h = self.words(tokens) + self.places(places)
        q, k, v = self.qkv(h).chunk(3, -1)
        k, v = (torch.cat(collectives.all_gather(each.contiguous()), 1) for each in (k, v))
        mask = places[:, None] >= torch.arange(k.shape[1])[None]
        h = h + self.out(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask))
        return self.head(h)


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DDP(Attention())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
draw = torch.Generator().manual_seed(1)
for step in range(4):
    whole = torch.randint(16, (2, 4 * size + 1), generator=draw)
    tokens, labels = (whole[:, at : at + 4 * size].chunk(size, 1)[rank] for at in (0, 1))
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.SUM)
    print(step, loss.item().hex(), (mean / size).item().hex())
dist.destroy_process_group()
