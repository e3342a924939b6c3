"""Forward-mode AD: dual numbers, and jvp against the backward's directional derivative."""
# slow

import torch
import torch.autograd.forward_ad as fwd

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
x, direction = torch.randn(5, 3), torch.randn(5, 3)
with fwd.dual_level():
    dual = fwd.make_dual(x, direction)
    value, tangent = fwd.unpack_dual(net(dual))
print(value.detach().sum().item().hex(), tangent.detach().norm().item().hex())
out, along = torch.func.jvp(lambda each: net(each), (x,), (direction,))
print(torch.equal(along, tangent))
x.requires_grad_()
weight = torch.randn(5, 2)
(net(x) * weight).sum().backward()
print(((x.grad * direction).sum() - (along * weight).sum()).abs().item() < 1e-5)
