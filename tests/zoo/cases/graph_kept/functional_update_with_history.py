"""Gradient descent in functional style."""
import torch

torch.manual_seed(0)
x = torch.randn(64, 3)
y = torch.sin(x.sum(1, keepdim=True))


def init(sizes):
    return [(torch.randn(i, o) / i**0.5).requires_grad_() for i, o in zip(sizes, sizes[1:])]


def predict(params, inputs):
    h = inputs
    for w in params[:-1]:
        h = torch.tanh(h @ w)
    return h @ params[-1]


def train_step(params, lr):
    loss = (predict(params, x) - y).pow(2).mean()
    grads = torch.autograd.grad(loss, params)
    new = [p - lr * g for p, g in zip(params, grads)]  # BUG history-kept
    # FIX new = [(p - lr * g).detach().requires_grad_() for p, g in zip(params, grads)]
    return new, loss


params = init([3, 16, 16, 1])
losses = []
for step in range(15):
    params, loss = train_step(params, 0.05)
    losses.append(loss.item())
print(losses[0], losses[-1])
