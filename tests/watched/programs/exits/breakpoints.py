"""breakpoint() with a hook of its own, and pdb that reads its commands from standard input."""
# stdin: p grad.tolist()
# stdin: c

import sys

import torch


def look(*args, **kwargs):
    print("at a breakpoint in", sys._getframe(1).f_code.co_name)


w = torch.ones(2, requires_grad=True)


def hook(grad):
    breakpoint()
    return grad * 2


sys.breakpointhook = look
first = w.register_hook(hook)
(w * 3).sum().backward()
sys.breakpointhook = sys.__breakpointhook__
w.grad = None
first.remove()


def other(grad):
    import pdb

    pdb.Pdb(nosigint=True, readrc=False).set_trace()
    return grad


w.register_hook(other)
(w * 4).sum().backward()
print(w.grad.tolist())
