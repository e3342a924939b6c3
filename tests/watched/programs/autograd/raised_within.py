"""What each kind of code that is called back raises: the exceptions, and all lines they passed."""

import copy
import sys
import traceback

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def bad(*given, **named):
    assert sys.exc_info() == (None, None, None)
    raise ValueError("bad")


def tried(who, call):
    try:
        call()
    except Exception as error:
        print(who, type(error).__name__, repr(error.__context__), repr(error.__cause__))
        for frame in traceback.extract_tb(error.__traceback__):
            print("   ", frame.filename.rpartition("/")[2], frame.lineno, frame.name)


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        bad()


class Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        bad()


class Layer(nn.Module):
    __deepcopy__ = forward = state_dict = _load_from_state_dict = train = _apply = bad

    def __setattr__(self, name, value):
        if name == "odd":
            bad()
        super().__setattr__(name, value)

    def __getattr__(self, name):
        if name == "odd":
            bad()
        return super().__getattr__(name)


class Optimizer(torch.optim.Optimizer):
    step = zero_grad = bad


class Data(torch.utils.data.Dataset):
    __getitem__ = bad

    def __len__(self):
        return 3


x = torch.ones(3, requires_grad=True)


def hooked(register, *given):
    y = x * 2
    register(y)
    y.sum().backward(*given)


def of_a_module(register):
    module = nn.Linear(3, 3)
    getattr(module, register)(bad)
    module(x).sum().backward()


def of_an_optimizer(kind, *given):
    module = nn.Linear(3, 3)
    module(x.detach()).sum().backward()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    getattr(optimizer, kind)(*given)
    optimizer.step()


def packing(pack, unpack):
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
    y.sum().backward()


def accumulated():
    leaf = torch.ones(2, requires_grad=True)
    leaf.register_post_accumulate_grad_hook(bad)
    leaf.sum().backward()


layer, optimizer = Layer(), Optimizer([x], {})
engine = torch.autograd.Variable._execution_engine
for _ in range(3):
    tried("Function.backward", lambda: Backward.apply(x).sum().backward())
    tried("Function.forward", lambda: Forward.apply(x))
tried("hook of a tensor", lambda: hooked(lambda y: y.register_hook(bad)))
tried("hook of a node", lambda: hooked(lambda y: y.grad_fn.register_hook(bad)))
tried("prehook of a node", lambda: hooked(lambda y: y.grad_fn.register_prehook(bad)))
tried("callback", lambda: hooked(lambda y: y.register_hook(lambda _: engine.queue_callback(bad))))
tried("post-accumulate hook", accumulated)
for name in ("forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"):
    tried(name, lambda: of_a_module(f"register_{name}"))
tried("step pre-hook", lambda: of_an_optimizer("register_step_pre_hook", bad))
tried("step post-hook", lambda: of_an_optimizer("register_step_post_hook", bad))
tried("closure", lambda: of_an_optimizer("step", bad))
tried("group", lambda: of_an_optimizer("add_param_group", {}))
tried("load", lambda: of_an_optimizer("load_state_dict", {"state": {}, "param_groups": []}))
tried("rate", lambda: torch.optim.SGD([x], lr=-1))
tried("step", lambda: optimizer.step())
tried("zero_grad", lambda: optimizer.zero_grad())
tried("scaler", lambda: torch.amp.GradScaler("cpu").step(optimizer))
tried("schedule", lambda: torch.optim.lr_scheduler.LambdaLR(torch.optim.SGD([x], lr=0.1), bad))
tried("pack", lambda: packing(bad, lambda kept: kept))
tried("unpack", lambda: packing(lambda kept: kept, bad))
for reentrant in (False, True):
    tried("checkpoint", lambda: checkpoint(bad, x, use_reentrant=reentrant))
tried("forward", lambda: layer(x))
tried("no module", lambda: nn.Module.__call__([]))
tried("shapes", lambda: nn.Linear(2, 2)(torch.ones(3)))
tried("set", lambda: setattr(layer, "odd", 1))
tried("get", lambda: layer.odd)
tried("state_dict", lambda: layer.state_dict())
tried("load_state_dict", lambda: layer.load_state_dict({}))
tried("eval", lambda: layer.eval())
tried("to", lambda: layer.to(torch.float64))
tried("deepcopy", lambda: copy.deepcopy(layer))
tried("parameter", lambda: layer.register_parameter("a.b", None))
tried("delete", lambda: delattr(layer, "nothing"))
tried("data", lambda: setattr(x, "data", 3))
tried("grad", lambda: setattr(x, "grad", torch.ones(5)))
tried("requires_grad", lambda: setattr(x * 2, "requires_grad", False))
tried("of integers", lambda: torch.ones(3, dtype=torch.int64).requires_grad_())
tried("hook of no gradient", lambda: torch.ones(3).register_hook(bad))
tried("in place", lambda: x.add_(1))
tried("copy_", lambda: torch.ones(3).copy_(torch.ones(4)))
tried("item", lambda: x.item())
tried("numpy", lambda: x.numpy())
tried("bool", lambda: bool(x))
tried("backward", lambda: x.backward())
tried("autograd.grad", lambda: torch.autograd.grad(x.detach().sum(), x))
tried("fill", lambda: nn.init.constant_(3, 1))
tried("seed", lambda: torch.manual_seed("x"))
tried("load", lambda: torch.load("nothing.pt"))
tried("loader", lambda: next(iter(torch.utils.data.DataLoader(Data()))))
tried("func.grad", lambda: torch.func.grad(bad)(x))
tried("vmap", lambda: torch.func.vmap(bad)(x))
tried("collective", lambda: torch.distributed.barrier())
