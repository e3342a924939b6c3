"""Hooks of tensors, nodes and leaves on the device."""

import torch
from device import DEVICE, end

w = torch.ones(3, requires_grad=True)


def doubled(grad):
    return grad * 2


def before(grads):
    print("before", len(grads))


def after(results, grads):
    print("after", len(results), len(grads))


def arrived(leaf):
    print("arrived", leaf.grad.tolist())


for _ in range(2):
    v = (w * 2).to(DEVICE)
    v.retain_grad()
    y = (v * v).tanh()
    y.register_hook(doubled)
    y.grad_fn.register_prehook(before)
    y.grad_fn.register_hook(after)
    handle = w.register_post_accumulate_grad_hook(arrived)
    y.sum().backward()
    handle.remove()
    print(v.grad.cpu().tolist())
end()
