"""Ends by an exception out of a hook, chained to another, with notes; atexit and finally still run."""
# true: GS301 the hook raises on purpose

import atexit

import torch

atexit.register(print, "atexit ran")
w = torch.ones(3, requires_grad=True)


def hook(grad):
    try:
        return grad.view(2, 2)
    except RuntimeError as error:
        new = ValueError("the gradient has a wrong shape")
        new.add_note("seen in a hook")
        raise new from error


w.register_hook(hook)
try:
    (w * 2).sum().backward()
finally:
    print("finally ran")
