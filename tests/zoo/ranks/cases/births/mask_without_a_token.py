"""A masked mean: one rank's sample has no valid token, and 0/0 is averaged into all ranks."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 12)
        self.out = nn.Linear(12, 3)

    def forward(self, tokens):
        mask = (tokens != 0).unsqueeze(2).float()
        pooled = (self.embed(tokens) * mask).sum(1) / mask.sum(1)  # BUG non-finite
        # FIX pooled = (self.embed(tokens) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.out(pooled)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(Pooled())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    tokens = torch.randint(1, 30, (6, 8))
    if rank == 1 and step == 2:
        tokens[4] = 0  # an empty document
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens), torch.randint(0, 3, (6,)))
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, loss {loss.item():.4f}")
dist.destroy_process_group()
