"""A backward that a node of the device calls, with nodes on the CPU and on the device."""

import torch
from device import DEVICE, end

w = torch.ones(3, requires_grad=True)
u = torch.ones(3, requires_grad=True)


class Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            again = x.detach().requires_grad_()
            ((again * again).cpu() * u).sum().backward()
        return grad * again.grad


for _ in range(2):
    (Inner.apply((w * 2).to(DEVICE)) * 3).sum().backward()
    print(w.grad, u.grad)
end()
