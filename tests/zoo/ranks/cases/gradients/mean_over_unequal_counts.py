"""Masked language modelling: each rank divides by its own number of masked tokens."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, MASK = 30, 0

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Embedding(VOCAB, 16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, VOCAB)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


def masked(batch=4, length=20):
    tokens = torch.randint(1, VOCAB, (batch, length))
    lengths = torch.randint(3, 6, (batch,)) if rank == 0 else torch.full((batch,), length)
    labels = tokens.clone()
    labels[torch.rand(batch, length) > 0.5] = -100
    labels[torch.arange(length) >= lengths[:, None]] = -100
    return tokens.masked_fill(labels != -100, MASK), labels


for step in range(4):
    tokens, labels = masked()
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="sum")
    count = (labels != -100).sum()
    # ADD dist.all_reduce(count)
    loss = loss / count  # BUG unequal-counts
    # FIX loss = loss * world / count
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, {count.item()} tokens, {loss.item():.4f}")
dist.destroy_process_group()
