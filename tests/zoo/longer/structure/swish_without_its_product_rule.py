"""A memory-saving Swish, of which one term of the derivative was forgotten."""

import torch
import torch.nn as nn


class SwishFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (s + s * (1 - s))  # BUG wrong-backward
        # FIX return grad_output * (s + x * s * (1 - s))


class MemoryEfficientSwish(nn.Module):
    def forward(self, x):
        return SwishFunction.apply(x)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.reduce = nn.Conv2d(channels, reduced, 1)
        self.expand = nn.Conv2d(reduced, channels, 1)
        self.act = MemoryEfficientSwish()

    def forward(self, x):
        s = x.mean(dim=(2, 3), keepdim=True)
        return x * torch.sigmoid(self.expand(self.act(self.reduce(s))))


class MBConv(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.dw = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.act = MemoryEfficientSwish()
        self.se = SqueezeExcite(channels, 2)
        self.pw = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return x + self.pw(self.se(self.act(self.dw(x))))


torch.manual_seed(0)
net = nn.Sequential(MBConv(4), MBConv(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x, y = torch.randn(12, 4, 6, 6), torch.randint(0, 2, (12,))
for step in range(3):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    print(step, loss.item())
