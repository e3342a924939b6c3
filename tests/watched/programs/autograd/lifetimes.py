# every level
"""When things die: at the line that lets go of them, without the garbage collector."""

import copy
import functools
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules import module as modules
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

gc.disable()

KINDS = ("forward_pre_hook", "forward_hook", "full_backward_pre_hook", "full_backward_hook")


def told(name: str, thing: Any) -> Any:
    """The same thing, which says when it dies."""
    weakref.finalize(thing, print, "  dies:", name)
    return thing


class Thing:
    """Something that says when it dies; a hook."""

    def __init__(self, name: str) -> None:
        told(name, self)

    def __call__(self, *_: Any) -> None:
        pass

    method = __call__


class Told(Exception):
    """One that says when it dies."""

    def __del__(self) -> None:
        print("  dies: exception")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.tanh(self.one(x)))


def case(function: Callable[[], dict[str, Any]]) -> None:
    """Let go of one after another of what this has made."""
    gc.collect()  # what PyTorch itself has left
    print(function.__name__)
    things = function()
    for name, thing in things.items():
        if not callable(getattr(thing, "remove", None)):
            told(name, thing)
    thing = None
    for name in list(things):
        print("let go of", name)
        del things[name]


def x(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def backward(model: nn.Module) -> torch.Tensor:
    loss = model(x(2, 3)).sum()
    loss.backward()
    return loss


@case
def models() -> dict[str, Any]:
    model = Net()
    loss = backward(model)
    grad, weight = model.one.weight.grad, model.two.weight
    return {"loss": loss, "child": model.one, "weight": weight, "model": model, "grad": grad}


@case
def models_without_a_backward() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(), nn.LSTM(3, 3))
    with torch.no_grad():
        alone = model(torch.ones(2, 3))[0]
    model.eval().load_state_dict(model.state_dict())
    made = {"copy": copy.deepcopy(model), "graph": Net()(x(1, 3)), "not called": Net().train()}
    return {"child": model[0], "model": model, "result": alone, **made}


@case
def models_in_part() -> dict[str, Any]:
    model = Net()
    backward(model)
    one, weight = told("the first layer", model.one), told("the second's weight", model.two.weight)
    del one, weight
    print("replace")
    model.one = nn.Linear(3, 3)
    model.two.weight = nn.Parameter(torch.ones(1, 3))
    backward(model)
    print("delete")
    del model.two
    return {"model": model}


@case
def models_of_one_function() -> dict[str, Any]:
    model = told("model", Net())
    optimizer = told("optimizer", torch.optim.SGD(model.parameters(), 0.1))
    backward(model)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    print("del optimizer")
    del optimizer
    model.training = False
    print("del model")
    del model
    print("return")
    return {}


@case
def optimizers() -> dict[str, Any]:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        return backward(model)

    for _ in range(3):
        optimizer.step(closure)
        scheduler.step()
    state = optimizer.state[model.one.weight]["exp_avg"]
    return dict(closure=closure, scheduler=scheduler, model=model, optimizer=optimizer, state=state)


@case
def trials() -> dict[str, Any]:
    for trial in range(2):
        model = told(f"model {trial}", Net())
        optimizer = told(f"optimizer {trial}", torch.optim.SGD(model.parameters(), 0.1))
        for step in range(3):
            optimizer.zero_grad()
            result = told(f"result {trial}.{step}", model(torch.ones(4, 3)))
            loss = nn.functional.mse_loss(result, torch.zeros(4, 1))
            told(f"loss {trial}.{step}", loss).backward()
            optimizer.step()
    return {}


@case
def tensors() -> dict[str, Any]:
    leaf = x(3)
    result = leaf * 2
    other = result.exp()
    view = other[1:]
    loss = view.sum()
    result.retain_grad()
    loss.backward()
    retained, grad = result.grad, leaf.grad
    made = {"view": view, "loss": loss, "other": other, "result": result, "retained": retained}
    return {**made, "leaf": leaf, "grad": grad}


@case
def tensors_that_are_written_to() -> dict[str, Any]:
    base = x(4) * 1
    view, detached, plain = base[:2], base.detach(), torch.zeros(3)
    view.mul_(3).add_(1)
    plain[0] = 2.0
    view.sum().backward()
    return {"base": base, "view": view, "detached": detached, "plain": plain}


@case
def graphs() -> dict[str, Any]:
    leaf = x(3)
    result = (leaf * leaf).exp()
    result.kept, result.grad_fn.metadata["kept"] = Thing("attribute"), Thing("metadata")
    saved = result.grad_fn._saved_result
    (grad,) = torch.autograd.grad(result.sum(), leaf, create_graph=True)
    second = torch.autograd.grad(grad.sum(), leaf)[0]
    given = torch.ones(3)
    (leaf * 2).backward(given)
    return {"given": given, "grad": grad, "second": second, "saved": saved, "result": result}


@case
def derivatives() -> dict[str, Any]:
    leaf = x(3)
    jacobian = torch.autograd.functional.jacobian(lambda a: told("inside", a * a), leaf)
    hessian = torch.func.hessian(lambda a: (a**3).sum())(leaf)
    model = Net()
    with torch.autocast("cpu"):
        again = checkpoint(model, x(1, 3), use_reentrant=False)
    again.sum().backward()
    return {"jacobian": jacobian, "hessian": hessian, "leaf": leaf, "again": again, "model": model}


@case
def hooks_of_tensors() -> dict[str, Any]:
    leaf = x(3)
    result = leaf * 2
    made = {
        "hook": leaf.register_hook(Thing("hook")),
        "method": leaf.register_hook(Thing("method").method),
        "partial": leaf.register_hook(functools.partial(Thing("partial"))),
        "accumulated": leaf.register_post_accumulate_grad_hook(Thing("accumulated")),
        "of a result": result.register_hook(Thing("of a result")),
        "prehook": result.grad_fn.register_prehook(Thing("prehook")),
        "posthook": result.grad_fn.register_hook(Thing("posthook")),
    }
    result.register_hook(Thing("left"))
    result.sum().backward()
    for name, handle in made.items():
        print("remove", name)
        handle.remove()
    return {"result": result, "leaf": leaf}


@case
def hooks_of_modules() -> dict[str, Any]:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    made = [getattr(model.one, f"register_{kind}")(Thing(kind)) for kind in KINDS]
    made += [getattr(modules, f"register_module_{kind}")(Thing(f"all's {kind}")) for kind in KINDS]
    made += [
        optimizer.register_step_pre_hook(Thing("before a step")),
        optimizer.register_step_post_hook(Thing("after a step")),
    ]
    for kind in KINDS:
        getattr(model.two, f"register_{kind}")(Thing(f"left {kind}"))
    own = weakref.ref(model)
    model.register_forward_hook(lambda *_: own() and None)
    backward(model)
    optimizer.step()
    for number, handle in enumerate(made):
        print("remove", number)
        handle.remove()
    return {"model": model, "optimizer": optimizer}


@case
def hooks_of_saved_values() -> dict[str, Any]:
    leaf = x(3)

    def kept(thing: Thing, value: Any) -> Any:
        return value

    pair = [functools.partial(kept, Thing(name)) for name in ("pack", "unpack")]
    with saved_tensors_hooks(*pair):
        result = leaf.exp()
    pair = [functools.partial(kept, Thing(name)) for name in ("packs one", "unpacks one")]
    other = leaf.exp()
    other.grad_fn._raw_saved_result.register_hooks(*pair)
    del pair
    (result + other).sum().backward()
    return {"result": result, "other": other, "leaf": leaf}


@case
def losses() -> dict[str, Any]:
    loss, model = nn.CrossEntropyLoss(weight=torch.ones(3)), nn.Linear(3, 3)
    value = loss(model(torch.ones(2, 3)), torch.tensor([0, 1]))
    value.backward()
    return {"weight": loss.weight, "loss": loss, "value": value, "model": model}


class Square(Function):
    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, kept: object, more: list[object]) -> torch.Tensor:
        told("ctx", ctx).save_for_backward(leaf)
        ctx.kept = kept, more
        return leaf * leaf

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (leaf,) = ctx.saved_tensors
        return 2 * leaf * told("incoming gradient", grad), None, None


@case
def functions() -> dict[str, Any]:
    leaf, kept = x(3), Thing("kept")
    result = Square.apply(leaf, kept, [Thing("in a list")])
    del kept
    result.sum().backward()
    with torch.no_grad():
        Square.apply(leaf, Thing("without a graph"), [])

    class OfOneCall(Square):
        thing = Thing("of a class")

    again = OfOneCall.apply(leaf, None, [])
    again.sum().backward()
    return {"result": result, "again": again, "class": OfOneCall, "leaf": leaf}


@case
def callbacks() -> dict[str, Any]:
    class Queues(Square):
        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
            torch.autograd.Variable._execution_engine.queue_callback(Thing("callback"))
            return grad, None, None

    Queues.apply(x(3), None, []).sum().backward()
    return {}


@case
def loaders() -> dict[str, Any]:
    data = TensorDataset(torch.ones(6, 1))
    loader = DataLoader(data, batch_size=2, shuffle=True)
    batches = iter(loader)
    first = next(batches)[0]
    for (batch,) in loader:
        told("batch of a loop", batch)
    return dict(first=first, second=next(batches)[0], batches=batches, loader=loader, data=data)


@case
def generators() -> dict[str, Any]:
    def results() -> Iterator[torch.Tensor]:
        model = told("model", Net())
        while True:
            yield model(torch.ones(1, 3))

    endless = results()
    first, second = next(endless), next(endless)
    first.sum().backward()
    return {"first": first, "generator": endless, "second": second}


@case
def threads() -> dict[str, Any]:
    def work() -> None:
        model = told("model of a thread", Net())
        model.one.weight.register_hook(Thing("hook of a thread"))
        backward(model)
        print("over")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return {"thread": thread}


class Raises(nn.Module):
    """Each of its methods raises."""

    def forward(self, *_: Any) -> Any:
        variable = Thing("variable")
        raise Told(type(variable).__name__)

    __getitem__ = method = forward


@case
def exceptions() -> dict[str, Any]:
    raises, leaf = Raises(), x(3)
    hooked, stepped = x(3), torch.optim.SGD([leaf], 0.1)
    hooked.register_hook(raises.method)
    stepped.register_step_pre_hook(raises.method)
    with saved_tensors_hooks(lambda value: value, raises.method):
        unpacked = leaf.exp().sum()
    over = leaf.exp().sum()
    over.backward()
    for tried in (
        lambda: raises(leaf),
        lambda: (hooked * 2).sum().backward(),
        stepped.step,
        unpacked.backward,
        over.backward,
        lambda: checkpoint(raises, leaf, use_reentrant=False),
        lambda: next(iter(DataLoader(raises, sampler=[0]))),
    ):
        try:
            tried()
        except (Told, RuntimeError) as error:
            print("caught", type(error).__name__)
        print("after")
    del tried
    return {"model": raises, "optimizer": stepped, "leaf": leaf, "hooked": hooked}


print("the end")
last = told("last", Net())
backward(last)
