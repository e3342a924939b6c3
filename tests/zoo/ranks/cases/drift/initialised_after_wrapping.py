"""Weights are initialised after DDP has copied those of rank 0 to all ranks."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def initialise(module):
    if isinstance(module, (nn.Linear, nn.Conv1d)):
        nn.init.kaiming_normal_(module.weight)  # ALSO
        nn.init.zeros_(module.bias)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(100 + rank)
net = nn.Sequential(
    nn.Conv1d(3, 8, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool1d(1),
    nn.Flatten(),
    nn.Linear(8, 2),
)
# ADD net.apply(initialise)
net = DistributedDataParallel(net)
net.apply(initialise)  # BUG written-after-wrapping
# FIX
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(4):
    x = torch.randn(6, 3, 20)
    y = (x.mean((1, 2)) > 0).long()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
print(f"rank {rank}: weights {sum(p.double().sum() for p in net.parameters()).item():.6f}")
dist.destroy_process_group()
