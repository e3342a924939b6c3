import torch
import torch.nn as nn

torch.manual_seed(0)


class Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.t(), x.t() @ grad, None  # BUG wrong-backward
        # FIX return grad @ weight.t(), x.t() @ grad, grad.sum(dim=0)


class Layer(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inp, out) / inp ** 0.5)
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x):
        return Affine.apply(x, self.weight, self.bias)


net = nn.Sequential(Layer(4, 16), nn.Tanh(), Layer(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(25, 4)
y = x.sum(dim=1, keepdim=True) + 2.0
for epoch in range(4):
    opt.zero_grad()
    loss = (net(x) - y).pow(2).mean()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
