"""Two subgroups train models of different size, with DDP in each; only at the end all ranks meet."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
teams = [dist.new_group([0, 2]), dist.new_group([1, 3])]
team = rank % 2
torch.manual_seed(team)
wide = 8 if team == 0 else 16
layers = [nn.Linear(4, wide), nn.ReLU()] + [nn.Linear(wide, wide), nn.ReLU()] * team + [nn.Linear(wide, 1)]
model = DDP(nn.Sequential(*layers), process_group=teams[team])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
draw = torch.Generator().manual_seed(rank)
for step in range(3 + 2 * team):
    x = torch.randn(8, 4, generator=draw)
    loss = nn.functional.mse_loss(model(x), x.max(1, keepdim=True).values)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seen = loss.detach().clone()
    dist.all_reduce(seen, group=teams[team])
    print(step, loss.item().hex(), seen.item().hex())
final = [torch.zeros(()) for _ in range(4)]
dist.all_gather(final, loss.detach())
print(torch.stack(final).min().item().hex())
dist.destroy_process_group()
