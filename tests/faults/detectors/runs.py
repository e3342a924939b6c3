"""The run: which nodes run, in which order, on which thread, in which mode, and how it ends."""

from __future__ import annotations

import sys
import threading
import warnings
from typing import Any

import pytest

from tests.faults.detectors.common import detector, function, leaf, refused, same


@detector
def newest_first(torch: Any) -> None:
    """The branch made last runs first, and a node waits for all its gradients."""
    x = leaf(torch, 1.0)
    order: list[str] = []
    shared = x * 1
    early, late = shared * 2, shared * 3
    x.register_hook(lambda g: order.append("leaf"))
    for name, tensor in (("shared", shared), ("early", early), ("late", late)):
        tensor.register_hook(lambda g, name=name: order.append(name))
    y = leaf(torch, 1.0)
    y.register_hook(lambda g: order.append("other leaf"))
    (early + late + y).sum().backward()
    assert order == ["other leaf", "late", "early", "shared", "leaf"], order


@detector
def numbers_of_nodes(torch: Any) -> None:
    x = leaf(torch, 1.0)
    mine = function(torch, lambda ctx, x: x * 1, lambda ctx, grad: grad)
    chain = [x * 2]
    for k in range(6):
        chain.append((chain[-1] + 1, chain[-1].exp(), mine.apply(chain[-1]))[k % 3])
    numbers = [made.grad_fn._sequence_nr() for made in chain]
    assert numbers == sorted(set(numbers)), numbers
    accumulator = chain[0].grad_fn.next_functions[0][0]
    assert accumulator._sequence_nr() == 2**64 - 1


@detector
def leaves_of_equal_rank(torch: Any) -> None:
    """In the order in which PyTorch's heap happens to give them out."""
    for wanted in ([0, 1, 2], [0, 2, 1, 3], [0, 2, 5, 4, 1, 3], [0, 2, 6, 5, 7, 4, 1, 3]):
        uses = [leaf(torch, 1.0) for _ in wanted]
        order: list[int] = []
        for k, use in enumerate(uses):
            use.register_hook(lambda g, k=k, order=order: order.append(k))
        torch.stack(uses).sum().backward()
        assert order == wanted, order
    one, two = leaf(torch, 1.0), leaf(torch, 1.0)
    heard: list[str] = []
    one.register_hook(lambda g: heard.append("one"))
    two.register_hook(lambda g: heard.append("two"))
    torch.autograd.backward([one * 1, two * 1])
    assert heard == ["two", "one"], heard


@detector
def several_roots(torch: Any) -> None:
    x, y = leaf(torch, 1.0), leaf(torch, 2.0)
    seeds = [torch.tensor([v], dtype=torch.float64) for v in (3.0, 5.0, 7.0)]
    torch.autograd.backward([x * 1, y * 1, x * 10], seeds)
    same(x.grad, 73.0)
    same(y.grad, 5.0)


@detector
def only_what_was_asked_for_runs(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    a, b = x * 2, y * 3
    heard: list[str] = []
    a.register_hook(lambda g: heard.append("a"))
    out = (a * b).sum()
    found = torch.autograd.grad(out, [y])
    assert heard == []
    assert x.grad is None
    assert y.grad is None
    same(found[0], 6.0, 12.0)
    both = torch.autograd.grad((x * y).sum(), [y, x])
    same(both[0], 1.0, 2.0)
    same(both[1], 3.0, 4.0)
    (x * y).sum().backward(inputs=[y])
    assert x.grad is None
    same(y.grad, 1.0, 2.0)


@detector
def ancestors_and_descendants_asked_for_at_once(torch: Any) -> None:
    """Every gradient on a path, and what is captured where a node runs, too."""
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    z = y.exp()
    out = (z * 3).sum()
    found = torch.autograd.grad(out, [x, z, y, x], retain_graph=True)
    wanted = (z * 3).tolist()
    same(found[1], 3.0, 3.0)
    same(found[2], *wanted)
    same(found[0], *[2 * w for w in wanted])
    same(found[3], *[2 * w for w in wanted])
    y.register_hook(lambda grad: grad * 0 + 1)
    both = torch.autograd.grad(out, [y, x], retain_graph=True)
    same(both[0], *wanted)
    same(both[1], 2.0, 2.0)
    same(torch.autograd.grad(out, [y], retain_graph=True)[0], 1.0, 1.0)
    y.sum().backward(inputs=[y, x])
    same(y.grad, 1.0, 1.0)
    same(x.grad, 2.0, 2.0)
    long = (x * 2) * 3 * 5
    short = leaf(torch, 1.0, 2.0) * 1
    same(torch.autograd.grad((short * long).sum(), [long])[0], *short.tolist())
    same(torch.autograd.grad((long * short).sum(), [short])[0], *long.tolist())
    first, second = x.unbind()
    found = torch.autograd.grad(first * 3 + second * 5, [second, first])
    assert [grad.item() for grad in found] == [5.0, 3.0], found


@detector
def unused_inputs(torch: Any) -> None:
    x, unused, node = leaf(torch, 1.0), leaf(torch, 2.0), leaf(torch, 2.0)
    far = node * 2
    ask = torch.autograd.grad
    for other in (unused, node, far):
        refused("not have been used", lambda other=other: ask((x * 2).sum(), [x, other]))
        found = ask((x * 2).sum(), [x, other], allow_unused=True)
        same(found[0], 2.0)
        assert found[1] is None
        same(ask((x * 2).sum(), [x, other], materialize_grads=True)[1], 0.0)
    refused("does not require grad", lambda: ask((x * 2).sum(), [torch.ones(1)]))
    (x * 2).sum().backward(inputs=[unused, x])
    assert unused.grad is None


@detector
def modes_are_restored(torch: Any) -> None:
    x = leaf(torch, 1.0)

    def broken(grad: Any) -> Any:
        raise ValueError("on purpose")

    for create_graph in (False, True):
        y = x * 2
        y.register_hook(broken)
        refused(
            "on purpose",
            lambda y=y, c=create_graph: torch.autograd.grad(y.sum(), x, create_graph=c),
            ValueError,
        )
        assert torch.is_grad_enabled()
    assert (x * 2).requires_grad
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            y = x * 2
        torch.autograd.grad(y, x, create_graph=True)
        assert not torch.is_grad_enabled()
    assert (x * 2).requires_grad


@detector
def the_mode_of_a_backward(torch: Any) -> None:
    modes: list[bool] = []
    x = leaf(torch, 1.0)
    x.register_hook(lambda grad: modes.append(torch.is_grad_enabled()))
    (x * 2).backward()
    torch.autograd.grad(x * 2, x, create_graph=True)
    assert modes == [False, True], modes


@detector
def modes_of_generators_and_decorators(torch: Any) -> None:
    @torch.no_grad()
    def numbers() -> Any:
        for _ in range(2):
            inside.append(torch.is_grad_enabled())
            try:
                inside.append((yield torch.is_grad_enabled()))
            except KeyError:
                inside.append(torch.is_grad_enabled())
        return "over"

    inside: list[Any] = []
    generator = numbers()
    assert next(generator) is False
    assert torch.is_grad_enabled()
    assert generator.send("sent") is False
    assert torch.is_grad_enabled()
    with pytest.raises(StopIteration, match="over"):
        generator.throw(KeyError())
    assert torch.is_grad_enabled()
    assert inside == [False, "sent", False, False], inside

    @torch.set_grad_enabled(False)
    def plain() -> bool:
        return bool(torch.is_grad_enabled())

    assert torch.is_grad_enabled()
    assert plain() is False
    mode = torch.no_grad()
    with mode, torch.enable_grad():
        assert torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def nested(torch: Any, inside: Any) -> Any:
    """A Function whose backward does something with gradients on."""

    def backward(ctx: Any, grad: Any) -> Any:
        with torch.enable_grad():
            inside()
        return grad

    return function(torch, lambda ctx, x: x * 1, backward)


@detector
def the_inner_backward_goes_first(torch: Any) -> None:
    heard: list[str] = []
    engine = torch.autograd.Variable._execution_engine
    x, held = leaf(torch, 3.0), leaf(torch, 1.0)
    old = held * 2
    old.register_hook(lambda grad: heard.append("inner"))

    def inside() -> None:
        engine.queue_callback(lambda: heard.append("outer callback"))
        old.register_hook(lambda g: engine.queue_callback(lambda: heard.append("inner callback")))
        old.sum().backward()
        heard.append("inner is done")

    other = x * 5
    other.register_hook(lambda grad: heard.append("outer"))
    (other + nested(torch, inside).apply(x)).backward()
    wanted = ["inner", "inner callback", "inner is done", "outer", "outer callback"]
    assert heard == wanted, heard
    same(held.grad, 2.0)
    same(x.grad, 6.0)


@detector
def callbacks_run_once_and_may_queue_more(torch: Any) -> None:
    heard: list[str] = []
    engine = torch.autograd.Variable._execution_engine

    def first() -> None:
        heard.append("first")
        engine.queue_callback(lambda: heard.append("second"))

    x = leaf(torch, 1.0)
    x.register_hook(lambda grad: engine.queue_callback(first))
    (x * 2).backward()
    assert heard == ["first", "second"], heard
    refused("during backward pass", lambda: engine.queue_callback(first))


@detector
def errors_come_out(torch: Any) -> None:
    """The first one, of any depth, with its traceback; nothing of the failed backward runs on."""
    x = leaf(torch, 3.0)

    def fails() -> None:
        (nested(torch, lambda: 1 / 0).apply(leaf(torch, 1.0))).backward()

    other = x * 5
    heard: list[str] = []
    other.register_hook(lambda grad: heard.append("ran"))
    refused("division", (other + nested(torch, fails).apply(x)).backward, ZeroDivisionError)
    assert heard == []
    assert torch.is_grad_enabled()
    try:
        nested(torch, fails).apply(x).backward()
    except ZeroDivisionError as error:
        names, found = [], error.__traceback__
        while found is not None:
            names.append(found.tb_frame.f_code.co_name)
            found = found.tb_next
        assert "<lambda>" in names, names
    x.grad = None
    (x * 2).backward()
    same(x.grad, 2.0)


@detector
def a_hundred_backwards_inside_each_other(torch: Any) -> None:
    """Beyond the depth at which the engine goes on in other threads; the modes go with it."""
    modes: list[bool] = []

    def forward(ctx: Any, x: Any, left: int) -> Any:
        ctx.left = left
        return x * 1

    def backward(ctx: Any, grad: Any) -> Any:
        modes.append(torch.is_grad_enabled())
        if not ctx.left:
            return grad, None
        with torch.enable_grad():
            x = leaf(torch, 1.0)
            mine.apply(x, ctx.left - 1).backward()
        return grad * x.grad + 1, None

    mine = function(torch, forward, backward)
    x = leaf(torch, 3.0)
    mine.apply(x, 100).backward()
    same(x.grad, 101.0)
    assert modes == [False] * 101, modes


@detector
def anomalies_are_told(torch: Any) -> None:
    x = leaf(torch, 0.0)

    def failing() -> list[str]:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            refused("PowBackward0' returned nan values in its 0th", lambda: bad().backward())
        return [str(each.message).splitlines()[0] for each in told]

    def bad() -> Any:
        return ((x * 0) ** 0.5 * 0).sum()

    def bad_gradient() -> Any:
        (first,) = torch.autograd.grad((x**1.5).sum(), x, create_graph=True)
        return (first * 0).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anomaly = torch.autograd.detect_anomaly
        with anomaly():
            told = failing()
            with anomaly(check_nan=False):
                bad().backward()
            assert torch.is_anomaly_check_nan_enabled()
    assert len(told) == 1, told
    assert told[0].startswith("Error detected in PowBackward0. Traceback of forward call"), told
    assert not torch.is_anomaly_enabled()
    with warnings.catch_warnings(record=True) as told_of_parents:
        warnings.simplefilter("always")
        with torch.autograd.set_detect_anomaly(True):
            refused("returned nan values", lambda: bad_gradient().backward())
    texts = [str(each.message) for each in told_of_parents]
    assert any("Previous calculation was induced by" in text for text in texts), texts


@detector
def threads_share_leaves(torch: Any) -> None:
    """Several threads add to one `.grad`; each has its own grad mode."""
    x = leaf(torch, 1.0)
    seen: list[Any] = []

    def work() -> None:
        seen.append(torch.is_grad_enabled())
        for _ in range(50):
            (x * 2).sum().backward()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with torch.no_grad():
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(before)
    same(x.grad, 400.0)
    assert seen == [True] * 4
