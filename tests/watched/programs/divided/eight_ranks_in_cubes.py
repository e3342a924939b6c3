"""Eight ranks, 2 × 2 × 2: data, pipeline and tensor parallel, each with groups of its own."""
# ranks: 8

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as collectives
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("data", "stage", "model"))
data, model = mesh.get_group("data"), mesh.get_group("model")
copy, stage, part = (mesh.get_local_rank(name) for name in ("data", "stage", "model"))
beside = mesh.get_group("stage")
peer = dist.get_process_group_ranks(beside)[1 - stage]
torch.manual_seed(10 * stage + part)
up, down = nn.Linear(6, 4), nn.Linear(4, 6 if stage == 0 else 1, bias=False)
parameters = [*up.parameters(), *down.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.05)
draw = torch.Generator().manual_seed(copy)
for step in range(3):
    optimizer.zero_grad()
    x = torch.randn(4, 6, generator=draw)
    if stage == 0:
        h = collectives.all_reduce(down(up(x).tanh()), group=model)
        dist.send(h.detach(), dst=peer)
        grad = torch.empty_like(h)
        dist.recv(grad, src=peer)
        h.backward(grad / 2)  # both ranks of the pair give the whole gradient
    else:
        h = torch.empty(4, 6)
        dist.recv(h, src=peer)
        h.requires_grad_()
        out = collectives.all_reduce(down(up(h).tanh()), group=model)
        loss = nn.functional.mse_loss(out, x.sum(1, keepdim=True)) / 2
        loss.backward()
        grad = h.grad.clone()
        dist.all_reduce(grad, group=model)
        dist.send(grad, dst=peer)
        print(step, loss.item().hex())
    for each in parameters:
        dist.all_reduce(each.grad, group=data)
        each.grad /= 2
    optimizer.step()
print(*(each.double().sum().item().hex() for each in parameters))
dist.barrier()
dist.destroy_process_group()
