"""DTensors whose parts are on the device; the other rank is only simulated."""

import torch
import torch.distributed as dist
from device import DEVICE, end
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = DeviceMesh(DEVICE, [0, 1])
part = torch.arange(6.0).reshape(2, 3).to(DEVICE).requires_grad_()
whole = DTensor.from_local(part, mesh, [Shard(0)])
(whole * 2).tanh().to_local().sum().backward()
print(part.grad.cpu())
end()
