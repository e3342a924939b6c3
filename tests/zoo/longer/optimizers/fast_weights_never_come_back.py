"""Meta-learning with copies: the outer loss trains the copies, never the model."""

import copy

import torch
import torch.nn as nn

torch.manual_seed(0)


def make_net():
    return nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))


class Task:
    def __init__(self):
        self.phase = torch.rand(1) * 3.14
        self.scale = 0.5 + torch.rand(1)

    def sample(self, n=10):
        x = torch.rand(n, 1) * 6 - 3
        return x, self.scale * torch.sin(x + self.phase)


def adapt(model, task, steps=2, lr=0.05):
    learner = copy.deepcopy(model)  # ALSO
    inner = torch.optim.SGD(learner.parameters(), lr=lr)
    for _ in range(steps):
        x, y = task.sample()
        loss = nn.functional.mse_loss(learner(x), y)
        inner.zero_grad()
        loss.backward()
        inner.step()
    return learner


meta = make_net()
outer = torch.optim.Adam(meta.parameters(), lr=1e-3)  # ALSO
for iteration in range(4):
    outer.zero_grad()
    total = 0.0
    for _ in range(2):
        task = Task()
        learner = adapt(meta, task)
        x, y = task.sample()
        loss = nn.functional.mse_loss(learner(x), y)
        grads = torch.autograd.grad(loss, list(learner.parameters()))
        # ADD for p, g in zip(meta.parameters(), grads):
        # ADD     p.grad = g.clone() if p.grad is None else p.grad + g
        total += loss.item()
    outer.step()  # BUG nothing-to-step
    print(iteration, total)
