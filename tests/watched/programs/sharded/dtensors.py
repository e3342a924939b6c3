"""DTensors by hand: placements, uneven shards, partial sums, views, in-place writes, factories."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, ones, zeros
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)


def spread(tensor: torch.Tensor, placement) -> DTensor:
    own = tensor.chunk(2, placement.dim)[0] if placement.is_shard() else tensor
    shape, stride = tensor.shape, tensor.stride()
    return DTensor.from_local(own, mesh, [placement], run_check=False, shape=shape, stride=stride)


whole = torch.randn(5, 4)  # 5 rows on 2 ranks
w = nn.Parameter(spread(whole, Shard(0)))
x = spread(torch.randn(3, 5), Replicate())
y = (x.relu() @ spread(torch.randn(5, 4), Replicate())).exp().sum()
print(y.to_local().item().hex())
z = (w.sin() * 2 + 1).t().contiguous()
z.sum().to_local().backward()
print(type(w.grad).__name__, tuple(w.grad.shape), w.grad.placements, w.grad.to_local().sum().item().hex())
part = DTensor.from_local(torch.ones(2, 2, requires_grad=True), mesh, [Partial()], run_check=False)
(part * 3).redistribute(placements=[Replicate()]).to_local().sum().backward()
print(part.placements, part.shape)
with torch.no_grad():
    w.mul_(0.5).add_(1)
    w[:1].zero_()
print(w.to_local().sum().item().hex(), w.grad.norm().to_local().item().hex())
print(ones(4, 2, device_mesh=mesh, placements=[Shard(1)]).to_local().shape, zeros(4, device_mesh=mesh).shape)
layer = distribute_module(nn.Linear(4, 4), mesh)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(2):
    loss = layer(spread(torch.ones(2, 4), Replicate())).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.to_local().item().hex(), layer.weight.grad.placements)
copy = w.detach().clone().requires_grad_()
grad, = torch.autograd.grad((copy ** 3).sum(), copy, create_graph=True)
grad.sum().backward()
print(copy.grad.to_local().sum().item().hex(), repr(copy)[:12], copy.data_ptr() == 0, copy.numel())
dist.destroy_process_group()
