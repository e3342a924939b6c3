import torch
import torch.nn as nn

torch.manual_seed(0)


class AddBias(torch.autograd.Function):
    """Rows of x, plus one bias for all of them."""

    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, grad):
        return grad, grad[0]  # BUG wrong-backward
        # FIX return grad, grad.sum(dim=0)


weight = nn.Parameter(torch.randn(3, 2) * 0.5)
bias = nn.Parameter(torch.zeros(2))
opt = torch.optim.SGD([weight, bias], lr=0.1)
x = torch.randn(20, 3)
y = x[:, :2] * 2 + torch.tensor([1.0, -1.0])
for it in range(5):
    out = AddBias.apply(x @ weight, bias)
    loss = (out - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
