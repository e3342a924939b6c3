"""Settings, vocabularies and metrics pass between ranks as objects; a monitored barrier; four ranks."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
settings = [{"wide": 8, "rate": 0.1, "words": ["a", "b", "c"]} if rank == 0 else None]
dist.broadcast_object_list(settings, src=0)
settings = settings[0]
shard = [None]
dist.scatter_object_list(shard, [{"seed": 10 + each} for each in range(size)] if rank == 0 else None, src=0)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, settings["wide"]), nn.Sigmoid(), nn.Linear(settings["wide"], 1))
for each in model.state_dict().values():
    dist.broadcast(each, 0)
optimizer = torch.optim.SGD(model.parameters(), lr=settings["rate"])
draw = torch.Generator().manual_seed(shard[0]["seed"])
for step in range(3):
    x = torch.rand(4 + rank, 3, generator=draw)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True), reduction="sum")
    counts = [None] * size
    dist.all_gather_object(counts, {"rank": rank, "rows": len(x), "loss": loss.item()})
    rows = sum(each["rows"] for each in counts)
    optimizer.zero_grad()
    (loss / rows).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    print(step, rows, sum(each["loss"] for each in counts).hex())
    dist.monitored_barrier()
told = [None] * size if rank == 0 else None
dist.gather_object({"rank": rank, "norm": model[0].weight.norm().item()}, told, dst=0)
if rank == 0:
    print(len({each["norm"] for each in told}), [each["rank"] for each in told])
dist.destroy_process_group()
