"""Meta-learning (MAML): initial weights from which one step of gradient descent fits any sine."""

import sys

import torch
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
INNER = 0.05


def network(x, weights):
    w1, b1, w2, b2, w3, b3 = weights
    hidden = F.relu(F.linear(x, w1, b1))
    hidden = F.relu(F.linear(hidden, w2, b2))
    return F.linear(hidden, w3, b3)


def sines(tasks):
    """Points of sines with random amplitude and phase: some for training, others for the test."""
    amplitude, phase = torch.rand(tasks, 1, 1) * 4 + 1, torch.rand(tasks, 1, 1) * 3.14
    x = torch.rand(tasks, 20, 1) * 10 - 5
    y = amplitude * (x - phase).sin()
    return x[:, :10], y[:, :10], x[:, 10:], y[:, 10:]


def adapted(weights, x, y):
    """The weights after one step, which stays in the graph."""
    loss = F.mse_loss(network(x, weights), y)
    grads = torch.autograd.grad(loss, weights, create_graph=True)
    return [w - INNER * grad for w, grad in zip(weights, grads)]


torch.manual_seed(0)
shapes = [(40, 1), (40,), (40, 40), (40,), (1, 40), (1,)]
start = [torch.randn(s) * (0.3 if len(s) > 1 else 0.0) for s in shapes]
start = [w.requires_grad_() for w in start]
optimizer = torch.optim.Adam(start, lr=5e-3)
for step in range(STEPS):
    losses = []
    for x, y, new_x, new_y in zip(*sines(8)):
        losses.append(F.mse_loss(network(new_x, adapted(start, x, y)), new_y))
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == STEPS - 1:
        print(f"step {step:3d}  loss after one step {loss.item():.4f}")
