import sys
import threading
import traceback
import warnings

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 1))


def said(name, *values):
    print(name, *(v.tolist() if isinstance(v, torch.Tensor) else v for v in values), flush=True)


def gradients(model):
    return [p.grad.tolist() for p in model.parameters()]


class Counts(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Deep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        def down(n):
            return 1 if n == 0 else 1 + down(n - 1)

        return grad * (down(ctx.depth) - ctx.depth) * 2, None


def modes():
    with Counts() as counts:
        model = network()
        model(torch.ones(2, 4)).sum().backward()
    said("dispatch", counts.calls, gradients(model))
    with Functions() as functions:
        model = network()
        model(torch.ones(2, 4)).sum().backward()
    said("function", functions.calls, gradients(model))

    x = torch.ones(2, requires_grad=True)
    for mode in (Counts(), Functions()):
        y = x.exp().sin()
        with mode:
            y.register_hook(lambda grad: None)
            found = torch.autograd.grad(y, x, torch.ones(2), create_graph=True)
        said("called in a mode", mode.calls, *found)


def module_hooks():
    model, seen = network(), []
    model.register_forward_pre_hook(lambda m, args: seen.append("pre"))
    model.register_forward_hook(lambda m, args, out: out * 2)
    model[0].register_full_backward_hook(
        lambda m, gi, go: seen.append(("full", go[0].sum().item()))
    )
    model[3].register_full_backward_pre_hook(
        lambda m, go: seen.append(("before", go[0].sum().item()))
    )
    everywhere = nn.modules.module.register_module_forward_hook(
        lambda m, args, out: seen.append(type(m).__name__)
    )
    model(torch.ones(2, 4, requires_grad=True)).sum().backward()
    everywhere.remove()
    said("module hooks", seen, gradients(model))


def checkpoints():
    for reentrant in (True, False):
        model, x = network(), torch.ones(2, 4, requires_grad=True)
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        said("checkpoint", reentrant, x.grad, gradients(model))


def transforms():
    f = torch.sin
    said("jvp", *torch.func.jvp(f, (torch.ones(2),), (torch.ones(2),)))
    said("vjp", torch.func.vjp(f, torch.ones(2))[1](torch.ones(2))[0])
    said(
        "grad of grad",
        torch.vmap(torch.func.grad(torch.func.grad(lambda x: x**3)))(torch.arange(3.0)),
    )
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.ones(2))
        said("dual", torch.autograd.forward_ad.unpack_dual(dual.exp()).tangent)


def packed():
    kept = []
    with saved_tensors_hooks(lambda t: (kept.append(tuple(t.shape)), t)[1], lambda t: t):
        model = network()
        model(torch.ones(2, 4)).sum().backward()
    with save_on_cpu():
        model(torch.ones(2, 4)).sum().backward()
    said("packed", kept, gradients(model))


def anomaly():
    x = torch.zeros(2, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught, torch.autograd.detect_anomaly():
        try:
            (x.sqrt() * 0).sum().backward()
        except RuntimeError as error:
            said(
                "anomaly",
                str(error),
                [(str(w.message), w.filename, w.lineno) for w in caught],
                torch.is_anomaly_enabled(),
            )
    said("anomaly", torch.is_anomaly_enabled())


def errors():
    x = torch.ones(2, requires_grad=True)
    loss = x.exp().sum()
    loss.backward()
    for wrong in (loss.backward, x.backward, lambda: torch.autograd.grad(x.sum(), torch.ones(1))):
        try:
            wrong()
        except RuntimeError as error:
            said("error", error)
    y = x.exp()
    y.register_hook(lambda grad: (_ for _ in ()).throw(KeyboardInterrupt("in a hook")))
    try:
        y.sum().backward()
    except KeyboardInterrupt as interrupt:
        said("interrupted", interrupt)
    for depth in (10, 100_000):
        try:
            Deep.apply(x, depth).sum().backward()
        except RecursionError as error:
            said("recursion", str(error)[:33])
    said("after", x.grad)


class Refuses(torch.nn.Module):
    def forward(self, x):
        raise ValueError("no")


class Nothing(torch.utils.data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, place):
        raise KeyError(place)


def fails(grad):
    raise KeyError("hook")


def told(program):
    """Say the traceback of what it raises, as a program would write it down itself."""
    try:
        program()
    except Exception:
        print(traceback.format_exc())


def tracebacks():
    hooked = torch.nn.Linear(2, 2)
    hooked.register_forward_hook(lambda *told: 1 / 0)
    y = torch.ones(2, requires_grad=True) * 2
    y.register_hook(fails)
    freed = (y * y).sum()
    told(lambda: torch.nn.Sequential(Refuses())(torch.ones(1)))
    told(lambda: hooked(torch.ones(1, 2)))
    told(lambda: list(torch.utils.data.DataLoader(Nothing())))
    told(lambda: y.sum().backward())
    told(freed.backward)
    told(freed.backward)
    w = torch.ones(2, requires_grad=True)
    (w * w).sum().backward(create_graph=True)  # it warns


if __name__ == "__main__":
    torch.set_num_threads(1)
    for part in (modes, module_hooks, checkpoints, transforms, packed, anomaly, errors, tracebacks):
        part()
    threading.Thread(target=lambda: network()(torch.ones(2, 4)).sum().backward()).start()
    print("the end", file=sys.stderr)
    torch.zeros(2, requires_grad=True).exp().backward()
