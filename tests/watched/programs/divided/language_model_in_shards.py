"""fully_shard on four ranks: a small language model, warm-up, clipping, an evaluation between epochs."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, wide: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.up, self.down = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (2, -1)).transpose(1, 2) for each in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8), nn.Embedding(10, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 20, bias=False)

    def forward(self, tokens):
        h = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def loss_of(model, tokens):
    return nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))
torch.manual_seed(0)
model = Model()
for block in model.blocks:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4)
draw, held_out = torch.Generator().manual_seed(rank), torch.Generator().manual_seed(90 + rank)
tests = torch.randint(20, (4, 8), generator=held_out)
for epoch in range(2):
    model.train()
    for step in range(2):
        loss = loss_of(model, torch.randint(20, (4, 8), generator=draw))
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
        optimizer.step()
        schedule.step()
        print(epoch, step, loss.item().hex(), norm.item().hex())
    model.eval()
    with torch.no_grad():
        found = loss_of(model, tests)
    dist.all_reduce(found)
    print(epoch, (found / size).item().hex())
dist.destroy_process_group()
