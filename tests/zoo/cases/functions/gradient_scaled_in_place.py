"""A layer whose gradient is made smaller on its way back; beside it a skip connection."""
import torch
import torch.nn as nn


class Damp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        grad *= ctx.by  # BUG wrong-backward
        # FIX grad = grad * ctx.by
        return grad, None


torch.manual_seed(0)
early = nn.Linear(4, 6)
late = nn.Linear(6, 6)
head = nn.Linear(6, 1)
opt = torch.optim.SGD([*early.parameters(), *late.parameters(), *head.parameters()], lr=0.05)
x = torch.randn(25, 4)
y = x.abs().sum(dim=1, keepdim=True)
for it in range(4):
    h = torch.relu(early(x))
    skip = late(h)
    out = head(Damp.apply(h, 0.1) + skip)
    loss = (out - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
