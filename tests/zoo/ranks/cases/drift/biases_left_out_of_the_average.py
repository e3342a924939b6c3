"""Gradients are averaged by hand, as one flat tensor of the weights without the biases."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


def average_gradients(model):
    grads = [p.grad for p in model.parameters() if p.grad is not None and p.dim() > 1]  # BUG not-averaged
    # FIX grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = _flatten_dense_tensors(grads)
    dist.all_reduce(flat)  # ALSO
    flat /= dist.get_world_size()
    for grad, averaged in zip(grads, _unflatten_dense_tensors(flat, grads)):
        grad.copy_(averaged)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
generator = torch.Generator().manual_seed(rank)
for step in range(5):
    x = torch.randn(8, 8, generator=generator)
    y = x[:, :4].argmax(1)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    average_gradients(model)
    optimizer.step()
for name, parameter in model.named_parameters():
    print(f"rank {rank}: {name} {parameter.double().sum().item():.6f}")
dist.destroy_process_group()
