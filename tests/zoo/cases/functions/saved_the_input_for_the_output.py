"""A hand-written activation."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class MySigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = 1.0 / (1.0 + torch.exp(-x))
        ctx.save_for_backward(x)  # ALSO
        # FIX ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * y * (1 - y)  # BUG wrong-backward


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 18)
        self.b = nn.Linear(18, 3)

    def forward(self, x):
        return self.b(MySigmoid.apply(self.a(x)))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
x = torch.randn(32, 6)
y = x[:, :3].argmax(dim=1)
for step in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
