"""Each rank clips its own gradient, and then the clipped ones are averaged."""
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(rank)


def average(parameters):
    for p in parameters:
        dist.all_reduce(p.grad)
        p.grad /= world


for update in range(4):
    states = torch.randn(32, 4, generator=generator)
    # the environments of the ranks pay on another scale
    returns = torch.randn(32, generator=generator) * 20**rank
    chosen = torch.distributions.Categorical(logits=policy(states))
    actions = (states[:, 0] > 0).long()
    loss = -(chosen.log_prob(actions) * returns).mean()
    optimizer.zero_grad()
    loss.backward()
    # ADD average(policy.parameters())
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)  # BUG clipped-per-rank
    average(policy.parameters())  # ALSO
    # FIX
    optimizer.step()
print(f"rank {rank}: weights {sum(p.double().sum() for p in policy.parameters()).item():.6f}")
dist.destroy_process_group()
