import torch
import torch.nn as nn

torch.manual_seed(0)


class Huber(torch.autograd.Function):
    @staticmethod
    def forward(ctx, pred, target, delta):
        err = pred - target
        ctx.save_for_backward(err)
        ctx.delta = delta
        small = err.abs() <= delta
        each = torch.where(small, 0.5 * err * err, delta * (err.abs() - 0.5 * delta))
        return each.mean()

    @staticmethod
    def backward(ctx, grad):
        (err,) = ctx.saved_tensors
        d = err.clamp(-ctx.delta, ctx.delta)
        return grad * d, None, None  # BUG wrong-backward
        # FIX return grad * d / err.numel(), None, None


model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(16, 4)
y = x.sum(dim=1, keepdim=True)
for k in range(5):
    loss = Huber.apply(model(x), y, 1.0)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(k, loss.item())
