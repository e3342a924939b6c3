"""Tensor parallel attention: the output projection of each rank is a Linear with a bias."""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.nn.functional import all_reduce


class Attention(nn.Module):
    def __init__(self, width, heads, world):
        super().__init__()
        self.heads, self.own = heads // world, width // world
        self.qkv = nn.Linear(width, 3 * self.own)
        self.out = nn.Linear(self.own, width, bias=True)  # BUG summed-twice
        # FIX self.out = nn.Linear(self.own, width, bias=False)
        nn.init.zeros_(self.out.bias)  # ALSO
        # FIX self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (
            part.reshape(n, t, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, -1)
        part = self.out(mixed)  # ALSO
        return all_reduce(part)  # ALSO
        # FIX return all_reduce(part) + self.bias


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(10 + rank)
block = Attention(16, 4, world)
torch.manual_seed(0)
head = nn.Linear(16, 5)
optimizer = torch.optim.AdamW([*block.parameters(), *head.parameters()], lr=1e-2)
for step in range(5):
    x = torch.randn(4, 7, 16)
    loss = F.cross_entropy(head(x + block(x)).flatten(0, 1), torch.randint(0, 5, (28,)))
    optimizer.zero_grad()
    (loss / world).backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, {loss.item():.5f}")
dist.destroy_process_group()
