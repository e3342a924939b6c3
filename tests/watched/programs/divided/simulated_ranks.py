"""All ranks in one process, each tensor with a value for each rank: LocalTensor."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

try:
    from torch.distributed._local_tensor import LocalTensorMode
except ImportError:
    LocalTensorMode = None

dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
if LocalTensorMode is not None:
    with LocalTensorMode(4):
        mesh = init_device_mesh("cpu", (4,))
        torch.manual_seed(0)
        weight = distribute_tensor(torch.randn(8, 6), mesh, [Shard(0)])
        x = distribute_tensor(torch.randn(5, 6), mesh, [Replicate()])
        for step in range(2):
            out = (x @ weight.T).relu()
            whole = out.redistribute(placements=[Replicate()]).to_local()
            print(step, type(whole).__name__, tuple(whole.shape))
            summed = whole.clone()
            dist.all_reduce(summed)
            print(step, tuple(summed.shape))
torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = nn.functional.mse_loss(net(torch.randn(4, 3)), torch.zeros(4, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
dist.destroy_process_group()
