"""A leaky clamp: the gradient outside of the range is meant to be a tenth of that inside."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class LeakyClamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward(x)
        ctx.low, ctx.high = low, high
        inside = x.clamp(low, high)
        return inside + 0.1 * (x - inside)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        inside = (x >= ctx.low) & (x <= ctx.high)
        slope = torch.where(inside, 0.1, 1.0)  # BUG wrong-backward
        # FIX slope = torch.where(inside, 1.0, 0.1)
        return grad * slope, None, None


net = nn.Sequential(nn.Linear(3, 14), nn.Tanh(), nn.Linear(14, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.02)
x = torch.randn(40, 3)
y = (x[:, :1] + x[:, 1:2]).clamp(-1, 1)
for step in range(5):
    out = LeakyClamp.apply(net(x), -1.0, 1.0)
    loss = (out - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
