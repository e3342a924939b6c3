"""Custom Functions: one that saves tensors, one with an integer beside them, one that is once differentiable."""

import torch
from torch.autograd.function import once_differentiable


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        gate = torch.sigmoid(x)
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    def backward(ctx, grad):
        x, gate = ctx.saved_tensors
        return grad * (gate + x * gate * (1 - gate))


class Power(torch.autograd.Function):
    @staticmethod
    def forward(x, exponent):
        return x**exponent

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.exponent = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.exponent * x ** (ctx.exponent - 1), None


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 8) / 8

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad.clamp(-1, 1)


torch.manual_seed(0)
layer = torch.nn.Linear(6, 4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
x, y = torch.randn(16, 6), torch.randn(16, 4)
for step in range(5):
    hidden = Swish.apply(layer(x))
    loss = torch.nn.functional.mse_loss(Round.apply(hidden) + 0.1 * Power.apply(hidden, 3), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), layer.weight.grad.norm().item().hex())
