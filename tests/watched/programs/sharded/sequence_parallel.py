"""Tensor and sequence parallel: a transformer block, and a loss over sharded classes."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module,
)

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.q, self.k, self.v = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.out, self.norm2, self.up, self.down = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        h = self.norm(x)
        many, length = h.shape[0], 6
        q, k, v = (one(h).view(many, length, -1, 2).transpose(1, 2) for one in (self.q, self.k, self.v))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(torch.relu(self.up(self.norm2(x))))


model = nn.ModuleDict({"words": nn.Embedding(20, 8), "block": Block(), "norm": nn.LayerNorm(8), "head": nn.Linear(8, 20)})
parallelize_module(model, mesh, {
    "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
})
whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
parallelize_module(model["block"], mesh, {
    "norm": SequenceParallel(), "norm2": SequenceParallel(),
    **{name: ColwiseParallel(input_layouts=Shard(1)) for name in "qkv"},
    "out": RowwiseParallel(output_layouts=Shard(1)), "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
})
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = torch.Generator().manual_seed(3)
tokens, labels = (torch.randint(20, (3, 6), generator=data) for _ in range(2))
for step in range(3):
    optimizer.zero_grad()
    with loss_parallel():
        scores = model["head"](model["norm"](model["block"](model["words"](tokens))))
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())
        loss.backward()
    optimizer.step()
    sums = [each.grad.full_tensor().double().sum().item().hex() for each in model.parameters()]
    print(step, loss.full_tensor().item().hex(), scores.placements, *sums)
dist.destroy_process_group()
