"""Custom functions on the device, `torch.autograd.grad`, and a backward of a backward."""

import torch
from device import DEVICE, end


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


w = torch.ones(3, requires_grad=True)
Square.apply(w.to(DEVICE)).sum().backward()
print(w.grad)
a = torch.ones(3).to(DEVICE).requires_grad_()
b = torch.ones(3).to(DEVICE).requires_grad_()
(only,) = torch.autograd.grad((Square.apply(a) * b).sum(), [a])
print(only.cpu())
(first,) = torch.autograd.grad((Square.apply(a) * b).sum(), [a], create_graph=True)
(second,) = torch.autograd.grad(first.sum(), [b])
print(second.cpu())
torch.autograd.backward([(w * 2).sum(), (w.to(DEVICE) * 3).sum()])
print(w.grad)
end()
