"""Gradients are averaged in one flat buffer, and the heads are made from a set of names."""
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
rank = dist.get_rank()
NAMES = ["depth", "edges"] if rank == 0 else ["edges", "depth"]  # as a set of strings gives them


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.heads = nn.ModuleDict({name: nn.Linear(8, 1) for name in NAMES})

    def forward(self, x):
        hidden = self.body(x).relu()
        return self.heads["depth"](hidden) + 2 * self.heads["edges"](hidden).tanh()


def average(parameters):
    flat = torch.cat([parameter.grad.flatten() for parameter in parameters])  # ALSO
    dist.all_reduce(flat)  # ALSO
    flat /= dist.get_world_size()
    for parameter, part in zip(parameters, flat.split([each.numel() for each in parameters])):
        parameter.grad.copy_(part.view_as(parameter))


torch.manual_seed(0)
model = Net()
named = sorted(model.named_parameters())
for _, parameter in named:
    dist.broadcast(parameter.data, 0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + rank)
for step in range(4):
    x = torch.randn(12, 8)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    average([*model.parameters()])  # BUG gradients-of-others
    # FIX average([parameter for _, parameter in named])
    optimizer.step()
    print(f"rank {rank}: step {step}, {sum(p.double().sum() for p in model.parameters()).item():.5f}")
dist.destroy_process_group()
