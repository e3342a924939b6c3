"""Whatever is called back warns about its callers, one after the other, by `stacklevel`."""

import sys
import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def shown(message, category, file, line, *more):
    global last
    last = file, line
    print(f"{message}: {file.rpartition('/')[2]}:{line}")


def callers(who):
    """Warn about each caller, as far as the module of this script."""
    frame, level = sys._getframe(1), 1
    while frame.f_globals is not globals() or frame.f_code.co_name != "<module>":
        frame = frame.f_back
    while level == 1 or (last != (__file__, frame.f_lineno) and level < 40):
        level += 1
        warnings.warn(f"{who} {level}", stacklevel=level)


def hook(who):
    def called(*given):
        callers(who)

    return called


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        callers("a Function's forward")
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        callers("a Function's backward")
        return gradient * 2


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Linear(4, 4)

    def forward(self, x):
        callers("forward")
        return self.part(x).relu()


class Plain(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self, closure=None):
        callers("an optimizer's step")


last = None
warnings.simplefilter("always")
warnings.showwarning = shown
torch.manual_seed(0)

layer = Layer()
layer.register_forward_pre_hook(hook("forward pre-hook"))
layer.register_forward_hook(hook("forward hook"))
layer.register_full_backward_pre_hook(hook("full backward pre-hook"))
layer.register_full_backward_hook(hook("full backward hook"))  # PyTorch warns, too
layer.part.weight.register_hook(hook("a tensor's hook"))
layer.part.weight.register_post_accumulate_grad_hook(hook("post-accumulate hook"))
result = Doubled.apply(layer(torch.ones(3, 4)))
result.grad_fn.register_prehook(hook("a node's prehook"))
result.grad_fn.register_hook(hook("a node's hook"))
engine = torch.autograd.Variable._execution_engine
result.register_hook(lambda _: engine.queue_callback(hook("a callback")))
result.sum().backward()

for reentrant in (False, True):
    inside = checkpoint(lambda x: (callers("a checkpoint"), x.sin())[1], torch.ones(2, requires_grad=True), use_reentrant=reentrant)
    inside.sum().backward()


def packed(value):
    callers("pack")
    return value


def unpacked(value):
    callers("unpack")
    return value


with torch.autograd.graph.saved_tensors_hooks(packed, unpacked):
    kept = torch.ones(3, requires_grad=True).exp()
torch.autograd.backward([kept.sum()])


def closure():
    callers("a closure")
    return 1.0


optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
optimizer.register_step_pre_hook(hook("step pre-hook"))
optimizer.register_step_post_hook(hook("step post-hook"))
optimizer.step(closure)
Plain([torch.ones(1, requires_grad=True)]).step()
torch.func.grad(lambda x: (callers("func.grad"), x.sin().sum())[1])(torch.ones(3))
torch.func.functional_call(layer, dict(layer.named_parameters()), (torch.ones(1, 4),))
leaf = torch.ones(3, requires_grad=True)
leaf.register_hook(hook("a leaf's hook"))
torch.autograd.grad((leaf * 2).sum(), leaf)
