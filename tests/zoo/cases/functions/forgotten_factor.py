import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        return grad_out * x  # BUG wrong-backward
        # FIX return grad_out * 2 * x


class QuadNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 10)
        self.fc2 = nn.Linear(10, 2)

    def forward(self, x):
        return self.fc2(Square.apply(self.fc1(x)))


net = QuadNet()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(24, 3)
y = (x.pow(2).sum(dim=1) > 3).long()
for epoch in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
