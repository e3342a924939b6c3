"""Errors in nodes of the device, and what runs after them."""

import torch
from device import DEVICE, end


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("no gradient today")


w = torch.ones(3, requires_grad=True)
for where in (DEVICE, "cpu"):
    try:
        (Raises.apply((w * 2).to(where)).cpu() * 3).sum().backward()
    except ValueError as error:
        print(error)
loss = (w.to(DEVICE) * 2).tanh().sum()
loss.backward()
try:
    loss.backward()
except RuntimeError as error:
    print(str(error)[:50])
w.grad = None
(w.to(DEVICE) * 2).sum().backward()
print(w.grad)
end()
