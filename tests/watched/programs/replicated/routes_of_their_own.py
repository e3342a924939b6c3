"""Each rank takes another branch of the model, with find_unused_parameters."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Tasks(nn.Module):
    """A trunk with a head for each task."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 16), nn.GELU())
        self.heads = nn.ModuleDict({"price": nn.Linear(16, 1), "kind": nn.Linear(16, 3), "mask": nn.Linear(16, 4)})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(4)
model = DDP(Tasks(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
draw = torch.Generator().manual_seed(rank)
order = ["price", "kind", "mask"]
for step in range(6):
    task = order[(step + rank) % 3]
    x = torch.randn(8, 6, generator=draw)
    out = model(x, task)
    if task == "price":
        loss = nn.functional.mse_loss(out[:, 0], x.sum(1))
    elif task == "kind":
        loss = nn.functional.cross_entropy(out, x[:, :3].argmax(1))
    else:
        loss = nn.functional.binary_cross_entropy_with_logits(out, (x[:, :4] > 0).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, task, loss.item().hex())
print(*(each.double().sum().item().hex() for each in model.parameters()))
dist.destroy_process_group()
