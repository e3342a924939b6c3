"""Gradients are flattened into one buffer, which is reduced while the next batch is made."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = nn.LSTM(4, 8, batch_first=True)
head = nn.Linear(8, 1)
parameters = [*model.parameters(), *head.parameters()]
flat = _flatten_dense_tensors([each.data for each in parameters])
dist.broadcast(flat, 0)
for own, first in zip(parameters, _unflatten_dense_tensors(flat, parameters)):
    own.data.copy_(first)
optimizer = torch.optim.RMSprop(parameters, lr=1e-2)
draw = torch.Generator().manual_seed(rank)
x = torch.randn(4, 6, 4, generator=draw)
for step in range(4):
    out, _ = model(x)
    loss = nn.functional.mse_loss(head(out[:, -1]), x.mean((1, 2)).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    grads = [each.grad for each in parameters]
    buffer = _flatten_dense_tensors(grads)
    work = dist.all_reduce(buffer, async_op=True)
    x = torch.randn(4, 6, 4, generator=draw)
    work.wait()
    buffer.div_(size)
    for grad, mean in zip(grads, _unflatten_dense_tensors(buffer, grads)):
        grad.copy_(mean)
    optimizer.step()
    print(step, loss.item().hex(), buffer.norm().item().hex())
dist.destroy_process_group()
