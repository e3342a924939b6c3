"""Gradients are averaged by hand, the largest first: ranks have other norms, and other orders."""
import torch
import torch.distributed as dist
import torch.nn as nn


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in range(5))
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x).tanh()
        return self.out(x)


def average(parameters):
    ordered = sorted(parameters, key=lambda p: -p.grad.norm())  # BUG order-of-collectives
    # FIX ordered = list(parameters)
    for parameter in ordered:  # ALSO
        dist.all_reduce(parameter.grad)  # ALSO
        parameter.grad /= dist.get_world_size()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = Mixer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(rank)
for step in range(4):
    x = torch.randn(12, 8) * (1 + rank)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), x[:, :3].argmax(1)).backward()
    average(model.layers.parameters())
    average(model.out.parameters())
    optimizer.step()
    print(f"rank {rank}: step {step}, {sum(p.double().sum() for p in model.parameters()).item():.5f}")
dist.destroy_process_group()
