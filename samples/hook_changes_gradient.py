"""Three hooks: one reads a gradient, one halves it, one is called after it was accumulated."""

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
hidden = x * 2


def look(grad):
    print("arriving at hidden:", grad)


def halve(grad):
    return grad / 2


def arrived(leaf):
    print("x.grad is now:", leaf.grad)


hidden.register_hook(look)
hidden.register_hook(halve)
x.register_post_accumulate_grad_hook(arrived)
(hidden * hidden).sum().backward()
