"""PPO: advantages are normalised on each rank, and one rank's buffer holds a single step."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def normalise(advantages):
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)  # BUG non-finite
    # FIX return (advantages - advantages.mean()) / (advantages.std(unbiased=False) + 1e-8)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
policy = DDP(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
for update in range(4):
    length = 1 if rank == 1 and update == 2 else 12
    states, actions = torch.randn(length, 4), torch.randint(0, 2, (length,))
    advantages = normalise(torch.randn(length))
    with torch.no_grad():
        old = policy.module(states).log_softmax(1)[torch.arange(length), actions]
    new = policy(states).log_softmax(1)[torch.arange(length), actions]
    ratio = (new - old).exp()
    loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: update {update}, loss {loss.item():.4f}")
dist.destroy_process_group()
