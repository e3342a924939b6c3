import torch
import torch.nn as nn

torch.manual_seed(0)


class Scale(torch.autograd.Function):
    """x times a gate, elementwise, of the same shape."""

    @staticmethod
    def forward(ctx, x, gate):
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    def backward(ctx, grad):
        x, gate = ctx.saved_tensors
        return grad * x, grad * gate  # BUG wrong-backward
        # FIX return grad * gate, grad * x


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.value = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(Scale.apply(self.value(x), torch.sigmoid(self.gate(x))))


model = Gated(5)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(30, 5)
y = x[:, :1] * torch.sigmoid(x[:, 1:2])
for epoch in range(4):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
