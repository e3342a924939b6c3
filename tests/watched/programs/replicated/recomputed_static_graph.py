"""Blocks that are called twice and recomputed in the backward, under a static graph, on four ranks."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Universal(nn.Module):
    """A transformer that uses one block several times."""

    def __init__(self, wide: int = 8, times: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(16, wide)
        self.block = nn.TransformerEncoderLayer(wide, 2, 2 * wide, dropout=0.0, batch_first=True)
        self.head = nn.Linear(wide, 16)
        self.times = times

    def forward(self, tokens):
        h = self.words(tokens)
        for _ in range(self.times):
            h = checkpoint(self.block, h, use_reentrant=False)
        return self.head(h)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(Universal(), static_graph=True)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
data = torch.Generator().manual_seed(10 + rank)
for step in range(4):
    tokens = torch.randint(16, (4, 7), generator=data)
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(step, loss.item().hex(), norm.item().hex())
dist.destroy_process_group()
