"""A sharper sigmoid with a backward of its own; memory grows from batch to batch."""
import torch
import torch.nn as nn
from torch.autograd import Function


class Sharp(Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.slope = slope
        ctx.out = torch.sigmoid(slope * x)  # BUG output-on-ctx
        # FIX out = torch.sigmoid(slope * x)
        # ADD ctx.save_for_backward(out)
        return ctx.out
        # FIX return out

    @staticmethod
    def backward(ctx, grad):
        out = ctx.out
        # FIX (out,) = ctx.saved_tensors
        return grad * ctx.slope * out * (1 - out), None


torch.manual_seed(4)
net = nn.Linear(8, 8)
read = nn.Linear(8, 2)
opt = torch.optim.Adam([*net.parameters(), *read.parameters()], lr=0.01)
for it in range(5):
    x = torch.randn(64, 8)
    target = (x.sum(dim=1) > 0).long()
    logits = read(Sharp.apply(net(x), 4.0))
    loss = nn.functional.cross_entropy(logits, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
