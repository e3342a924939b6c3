"""The mask is an attribute of ctx, and one buffer is used for all calls."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.mask = mask  # BUG wrong-backward
        # FIX ctx.mask = mask.clone()
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.mask, None  # ALSO


class Dropper(nn.Module):
    def __init__(self, shape, p):
        super().__init__()
        self.p = p
        self.register_buffer("mask", torch.ones(shape))

    def forward(self, x):
        self.mask.bernoulli_(1 - self.p).div_(1 - self.p)  # ALSO
        return Drop.apply(x, self.mask)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.ModuleList(nn.Linear(10, 10) for _ in range(2))
        self.drop = Dropper((16, 10), 0.3)
        self.out = nn.Linear(10, 1)

    def forward(self, x):
        for fc in self.fc:
            x = self.drop(torch.tanh(fc(x)))
        return self.out(x)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(16, 10)
y = x[:, :1]
for step in range(3):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
