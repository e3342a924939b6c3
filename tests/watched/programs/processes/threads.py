"""Threads that train side by side, each its own model, and a pool that computes gradients."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

found = {}


def train(name):
    generator = torch.Generator().manual_seed(name)
    w = torch.randn(6, 3, generator=generator).requires_grad_()
    x = torch.randn(10, 6, generator=generator)
    optimizer = torch.optim.SGD([w], lr=0.05)
    for _ in range(10):
        loss = (x @ w).tanh().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found[name] = loss.item().hex(), w.grad.norm().item().hex()


threads = [threading.Thread(target=train, args=(name,)) for name in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(found.items()))


def slope(number):
    x = torch.tensor(float(number), requires_grad=True)
    return torch.autograd.grad(x.sin() * x, x)[0].item().hex()


with ThreadPoolExecutor(3) as pool:
    print(*pool.map(slope, range(12)))
