"""A matrix product that asks which gradients are wanted."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_a = grad.mm(b.t())
        if ctx.needs_input_grad[0]:  # BUG wrong-backward
        # FIX if ctx.needs_input_grad[1]:
            grad_b = a.t().mm(grad)
        return grad_a, grad_b  # ALSO


w1 = nn.Parameter(torch.randn(4, 10) * 0.4)
w2 = nn.Parameter(torch.randn(10, 1) * 0.3)
opt = torch.optim.SGD([w1, w2], lr=0.1)
x = torch.randn(30, 4)
y = x[:, :1].abs()
for epoch in range(4):
    loss = (MatMul.apply(torch.relu(MatMul.apply(x, w1)), w2) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
