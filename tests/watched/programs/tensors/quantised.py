"""Quantised tensors, and training through fake quantisation with observers."""

import torch
from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver

torch.manual_seed(0)
x = torch.randn(4, 4)
q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
print(q.int_repr().sum().item(), q.dequantize().sum().item().hex(), q.q_scale())
c = torch.quantize_per_channel(x, torch.full((4,), 0.2), torch.zeros(4, dtype=torch.long), 0, torch.qint8)
print(c.int_repr().sum().item())

layer = torch.nn.Linear(4, 2)
fake = FakeQuantize(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
y = torch.randn(4, 2)
for step in range(4):
    loss = (fake(layer(x)) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), layer.weight.grad.norm().item().hex())
