"""Rank 0 serves parameters: workers send gradients, it steps, and sends parameters back."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 1))
many = sum(each.numel() for each in model.parameters())
STEPS = 4


def serve() -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        total = torch.zeros(many)
        for worker in range(1, size):
            grad = torch.empty(many)
            dist.recv(grad, src=worker)
            total += grad
        for parameter, grad in zip(model.parameters(), total.split([each.numel() for each in model.parameters()])):
            parameter.grad = (grad / (size - 1)).view_as(parameter)
        optimizer.step()
        flat = parameters_to_vector(model.parameters()).detach()
        for worker in range(1, size):
            dist.send(flat, dst=worker)
        print(step, flat.norm().item().hex())


def work() -> None:
    draw = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        x = torch.randn(8, 5, generator=draw)
        loss = nn.functional.mse_loss(model(x), x[:, :1] - x[:, 1:2])
        model.zero_grad()
        loss.backward()
        dist.send(torch.cat([each.grad.view(-1) for each in model.parameters()]), dst=0)
        flat = torch.empty(many)
        dist.recv(flat, src=0)
        vector_to_parameters(flat, model.parameters())
        print(step, loss.item().hex())


serve() if rank == 0 else work()
dist.barrier()
dist.destroy_process_group()
