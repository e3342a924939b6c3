"""Running statistics of batch norm stay those of each rank, and the model is evaluated on all."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(11)
net = nn.Sequential(
    nn.Conv2d(3, 6, 3, padding=1, bias=False),
    nn.BatchNorm2d(6),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(6, 3),
)
model = DDP(net, broadcast_buffers=False)  # BUG buffers-differ
# FIX model = DDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(rank)
test = torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(99))
for epoch in range(2):
    model.train()
    for _ in range(3):
        # the cameras of the ranks differ in brightness
        x = torch.randn(8, 3, 8, 8, generator=generator) * (1 + rank) + rank
        y = torch.randint(0, 3, (8,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        logits = model(test)
    print(f"rank {rank}: epoch {epoch}, logits {logits.double().sum().item():.5f}")
dist.destroy_process_group()
