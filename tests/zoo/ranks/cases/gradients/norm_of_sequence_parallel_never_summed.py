"""Sequence parallelism: a norm sees a part of the sequence on each rank, and keeps its partial gradient."""
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dfn
import torch.nn as nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
WIDTH, HIDDEN = 8, 16


class Block(nn.Module):
    """A norm on this rank's part of the sequence, then a column- and a row-parallel layer."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        up, down = torch.randn(HIDDEN, WIDTH) / 3, torch.randn(WIDTH, HIDDEN) / 4
        self.up = nn.Parameter(up.chunk(world, 0)[rank].clone())
        self.down = nn.Parameter(down.chunk(world, 1)[rank].clone())

    def forward(self, part):
        whole = torch.cat(dfn.all_gather(self.norm(part)))
        partial = (whole @ self.up.T).relu() @ self.down.T
        summed = dfn.all_reduce(partial)
        return part + summed.chunk(world)[rank]


block = Block()
optimizer = torch.optim.SGD(block.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(1)
for step in range(4):
    x = torch.randn(10, WIDTH, generator=generator)
    optimizer.zero_grad()
    loss = block(x.chunk(world)[rank]).square().sum()
    loss.backward()  # BUG never-summed
    # ADD for p in block.norm.parameters():
    # ADD     dist.all_reduce(p.grad)
    optimizer.step()  # ALSO
weight = block.norm.weight.double().sum().item()
print(f"rank {rank}: norm {weight:.6f}")
dist.destroy_process_group()
