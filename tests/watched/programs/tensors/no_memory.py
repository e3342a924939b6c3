"""Tensors without memory of their own: meta, fake; expanded, empty and overlapping ones; views."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

torch.manual_seed(0)
with torch.device("meta"):
    huge = torch.nn.Linear(10_000, 10_000)
print(huge(torch.empty(2, 10_000, device="meta")).shape, huge.weight.device)
with FakeTensorMode() as mode:
    model = torch.nn.Linear(8, 4)
    out = model(torch.randn(3, 8)).sum()
    out.backward()
    print(tuple(model.weight.grad.shape))
x = torch.randn(3, 1, requires_grad=True)
wide = x.expand(3, 5)
none = torch.zeros(0, 4, requires_grad=True)
windows = torch.arange(6.0).as_strided((3, 4), (1, 1))
(wide.cumsum(1) @ windows.T.new_ones(5, 1) + none.sum() + windows.sum()).sum().backward()
print(*(each.hex() for each in x.grad.flatten().tolist()), tuple(none.grad.shape))
c = torch.randn(4, dtype=torch.complex64, requires_grad=True)
(c.conj().imag * c.real).sum().backward()
print(torch.view_as_real(c.grad).norm().item().hex())
kept = torch.randn(8, 8, requires_grad=True)
kept.square()[::2, 1::3].transpose(0, 1).flip(0).sum().backward()
print(kept.grad.norm().item().hex())
