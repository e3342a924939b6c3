import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x * 2
y.retain_grad()


def halve(grad):
    return grad / 2


def before(grad_outputs):
    pass


def after(grad_inputs, grad_outputs):
    pass


def arrived(leaf):
    pass


y.register_hook(halve)
y.grad_fn.register_prehook(before)
y.grad_fn.register_hook(after)
x.register_post_accumulate_grad_hook(arrived)
y.sum().backward()
