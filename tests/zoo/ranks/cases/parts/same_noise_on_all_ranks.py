"""Denoising: one seed for all ranks, set after the data was split, draws the same noise everywhere."""
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
seed_everything(1)
clean = torch.randn(64, 8).cumsum(1)
mine = clean[rank::world]
model = DDP(nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 8)))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
seed_everything(1)  # BUG same-seed
# FIX seed_everything(1 + rank)
for step in range(6):
    part = mine[step * 5 : step * 5 + 5]
    t = torch.rand(len(part), 1)  # ALSO
    noise = torch.randn_like(part)  # ALSO
    noisy = (1 - t) * part + t * noise
    optimizer.zero_grad()
    predicted = model(torch.cat([noisy, t], 1))
    loss = nn.functional.mse_loss(predicted, noise - part)
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, noise {noise.sum().item():.5f}, loss {loss.item():.4f}")
dist.destroy_process_group()
