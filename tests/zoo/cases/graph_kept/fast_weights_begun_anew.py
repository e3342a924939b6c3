"""Model-agnostic meta-learning on sine waves."""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
INNER = 0.01


def init():
    return [
        (0.3 * torch.randn(24, 1)).requires_grad_(),
        torch.zeros(24, requires_grad=True),
        (0.3 * torch.randn(1, 24)).requires_grad_(),
        torch.zeros(1, requires_grad=True),
    ]


def forward(x, w):
    h = torch.tanh(F.linear(x, w[0], w[1]))
    return F.linear(h, w[2], w[3])


def task():
    amplitude, phase = torch.rand(1) * 4 + 1, torch.rand(1) * 3

    def sample(n):
        x = torch.rand(n, 1) * 10 - 5
        return x, amplitude * torch.sin(x + phase)

    return sample


def adapt(weights, x, y, steps=2):
    fast = weights
    for _ in range(steps):
        loss = F.mse_loss(forward(x, fast), y)
        grads = torch.autograd.grad(loss, fast, create_graph=True)
        fast = [(w - INNER * g).detach().requires_grad_() for w, g in zip(fast, grads)]  # BUG graph-cut
        # FIX fast = [w - INNER * g for w, g in zip(fast, grads)]
    return fast


weights = init()
meta = torch.optim.Adam(weights, lr=1e-3)
for it in range(5):
    meta.zero_grad()
    total = 0.0
    for _ in range(3):
        sample = task()
        fast = adapt(weights, *sample(10))
        x, y = sample(10)
        total = total + F.mse_loss(forward(x, fast), y)
    total.backward()
    meta.step()
    print(it, total.item() / 3)
