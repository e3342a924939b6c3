"""Reinforcement learning: actors gather episodes, the learner updates the policy and broadcasts it."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.distributions import Categorical

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
draw = torch.Generator().manual_seed(rank)
torch.manual_seed(20 + rank)
if rank == 0:
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for update in range(4):
    for parameter in policy.parameters():
        dist.broadcast(parameter.data, src=0)
    states = torch.randn(10, 3, generator=draw)
    with torch.no_grad():
        actions = Categorical(logits=policy(states)).sample()
    rewards = torch.where(actions == (states[:, 0] > 0).long(), 1.0, -1.0)
    batch = torch.cat([states, actions[:, None].float(), rewards[:, None]], 1)
    every = [torch.empty_like(batch) for _ in range(size)] if rank == 0 else None
    dist.gather(batch, every, dst=0)
    if rank == 0:
        whole = torch.cat(every)
        states, actions, rewards = whole[:, :3], whole[:, 3].long(), whole[:, 4]
        chances = Categorical(logits=policy(states))
        loss = -(chances.log_prob(actions) * (rewards - rewards.mean())).mean() - 0.01 * chances.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(update, loss.item().hex())
    mean = rewards.mean()
    dist.all_reduce(mean)
    print(update, (mean / size).item().hex())
dist.destroy_process_group()
