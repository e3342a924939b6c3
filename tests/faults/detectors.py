"""Small programs that notice when the engine or the recorder is wrong: each fails then.

They compare with numbers worked out by finite differences, with what a user would see, or with what
every trace keeps; none of them needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace import schema
from gradscope.trace.run import Trace
from gradscope.trace.spec import check

Detector = Callable[[], None]


def leaf(values: list[Any]) -> Any:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def numeric(function: Callable[[Any], Any], at: list[float]) -> list[float]:
    """The gradient of a function of a vector, by central differences."""
    found = []
    for i in range(len(at)):
        sides = []
        for sign in (1, -1):
            moved = [v + sign * 1e-6 * (k == i) for k, v in enumerate(at)]
            sides.append(function(torch.tensor(moved, dtype=torch.float64)).item())
        found.append((sides[0] - sides[1]) / 2e-6)
    return found


def close(found: Any, wanted: list[float]) -> None:
    numbers = found.reshape(-1).tolist()
    assert len(numbers) == len(wanted)
    assert all(abs(a - b) < 1e-4 for a, b in zip(numbers, wanted, strict=True)), (numbers, wanted)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x * x[0] - x / (x * x + 2) + (1 - x) * 3).sum(),
    "subtraction": lambda x: (x[0] - x * 2 - x[1]).sum(),
    "elementary": lambda x: (x.exp() * x.sin() + torch.tanh(x) + (x * x + 1).sqrt()).sum(),
    "broadcast": lambda x: (
        (x.reshape(3, 1) * x).sum() + (x.reshape(1, 3) + x.reshape(3, 1)).pow(2).sum()
    ),
    "matrix": lambda x: (x.reshape(3, 1) @ x.reshape(1, 3) @ x.reshape(3, 1)).sum(),
    "views": lambda x: (x.expand(2, 3).t().reshape(-1)[1:5] * x[0]).sum(),
    "twice": lambda x: ((x + x) * (x + x)).sum(),
    "softmax": lambda x: (torch.softmax(x, 0) * x).sum(),
    "diamond": lambda x: sum(((x * k).tanh() * x).sum() for k in range(1, 5)),
}


def gradients() -> None:
    at = [0.3, -0.7, 1.1]
    for function in FUNCTIONS.values():
        x = leaf(at)
        function(x).backward()
        close(x.grad, numeric(function, at))


def second_gradients() -> None:
    at = [0.3, -0.7, 1.1]
    for function in FUNCTIONS.values():

        def slope(x: Any, function: Any = function) -> Any:
            x = x if x.requires_grad else x.requires_grad_()
            (first,) = torch.autograd.grad(function(x), [x], create_graph=True)
            return (first * first).sum() + (x * x * x).sum()

        x = leaf(at)
        slope(x).backward()
        close(x.grad, numeric(slope, at))


def writes_through_views() -> None:
    x = leaf([1.0, 2.0, 3.0])
    base = x * 2
    view, other = base[:2], base[1:]
    view.mul_(3)
    (other * other).sum().backward()
    close(x.grad, [0.0, 2 * 6 * 2 * 6.0, 2 * 2 * 3 * 2.0])


def stale_values_are_refused() -> None:
    x = leaf([1.0, 2.0])
    y = x.exp()
    out = y.sum()
    y.add_(1)
    expect_error("modified by an inplace operation", out.backward)
    assert y._version == 1


def freed_graphs_are_refused() -> None:
    x = leaf([1.0, 2.0])
    out = x.exp().sum()
    out.backward()
    expect_error("a second time", out.backward)
    kept = x.exp().sum()
    kept.backward(retain_graph=True)
    kept.backward()


def leaves_are_guarded() -> None:
    x = leaf([1.0, 2.0])
    expect_error("a leaf Variable that requires grad", lambda: x.add_(1))
    expect_error("a view of a leaf Variable", lambda: x[0].add_(1))


def expect_error(words: str, run: Callable[[], object]) -> None:
    try:
        run()
    except RuntimeError as error:
        said = str(error)
    else:
        said = "nothing"
    assert words in said


def gradients_are_nobody_elses() -> None:
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (a + b).backward(torch.ones(2, dtype=torch.float64))
    a.grad.mul_(10)
    close(b.grad, [1.0, 1.0])
    seed = torch.ones(2, dtype=torch.float64)
    c = leaf([1.0, 2.0])
    (c + 0).backward(seed)
    c.grad.mul_(5)
    close(seed, [1.0, 1.0])


def sums_leave_others_alone() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    kept: list[Any] = []
    z = y * 1
    z.register_hook(kept.append)
    (z + y).backward(torch.ones(2, dtype=torch.float64))
    close(kept[0], [1.0, 1.0])
    close(x.grad, [2.0, 2.0])


def gradients_add_up() -> None:
    x = leaf([1.0, 2.0])
    for _ in range(3):
        (x * 2).sum().backward()
    close(x.grad, [6.0, 6.0])


def hooks_are_heard_once_and_in_order() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    calls: list[str] = []
    y.register_hook(lambda g: calls.append("first"))
    y.register_hook(lambda g: (calls.append("second"), g * 10)[1])
    y.retain_grad()
    x.register_post_accumulate_grad_hook(lambda t: calls.append("after"))
    y.sum().backward()
    assert calls == ["first", "second", "after"], calls
    close(y.grad, [10.0, 10.0])
    close(x.grad, [20.0, 20.0])


def nodes_are_heard() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    calls: list[str] = []
    y.grad_fn.register_prehook(lambda grads: (calls.append("pre"), (grads[0] * 3,))[1])
    y.grad_fn.register_hook(lambda inputs, outputs: calls.append("post"))
    y.sum().backward()
    assert calls == ["pre", "post"], calls
    close(x.grad, [6.0, 6.0])


def only_what_was_asked_for_runs() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    a, b = x * 2, y * 3
    heard: list[str] = []
    a.register_hook(lambda g: heard.append("a"))
    out = (a * b).sum()
    found = torch.autograd.grad(out, [y])
    assert heard == []
    assert x.grad is None
    assert y.grad is None
    close(found[0], [6.0, 12.0])
    both = torch.autograd.grad((x * y).sum(), [y, x])
    close(both[0], [1.0, 2.0])
    close(both[1], [3.0, 4.0])


def modes_are_restored() -> None:
    x = leaf([1.0])

    def broken(grad: Any) -> Any:
        raise ValueError("on purpose")

    y = x * 2
    y.register_hook(broken)
    try:
        y.sum().backward()
    except ValueError:
        pass
    else:
        raise AssertionError("the hook's error was lost")
    assert torch.is_grad_enabled()
    assert (x * 2).requires_grad
    with torch.no_grad():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def newest_first() -> None:
    """The branch made last runs first, and a node waits for all its gradients."""
    x = leaf([1.0])
    order: list[str] = []
    shared = x * 1
    early, late = shared * 2, shared * 3
    for name, tensor in (("shared", shared), ("early", early), ("late", late)):
        tensor.register_hook(lambda g, name=name: order.append(name))
    (early + late).sum().backward()
    assert order == ["late", "early", "shared"], order


def traced() -> Trace:
    """A recording with a bit of everything in it."""
    x, weight = leaf([0.5, -0.25, 1.0]), leaf([[1.0, 2.0, 3.0]] * 3)
    with record() as recording:
        hidden = x
        for _ in range(3):
            hidden = torch.tanh(weight @ hidden) + hidden
        hidden.register_hook(lambda g: g * 1.5)
        base = hidden * 2
        base[0].mul_(3)
        out = (base * base.detach()).sum()
        out.backward(retain_graph=True)
        torch.autograd.grad(out, [weight])
        (first,) = torch.autograd.grad((x * x * x).sum(), [x], create_graph=True)
        first.sum().backward()
    return recording.trace()


def traces_keep_their_rules() -> None:
    violations = check(traced())
    assert violations == [], violations[0]


def traces_tell_the_graph() -> None:
    """The trace's nodes, edges and saved tensors are those that `next_functions` shows."""
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    with record() as recording:
        a = x * y
        b = a.exp() - y
        c = b.reshape(2, 1) + a
        out = (c * c).sum()
        shape = graph_of(out.grad_fn)
        out.backward()
    trace = recording.trace()
    edges: dict[int, list[tuple[int, int, int]]] = {}
    for edge in trace.rows(schema.Edge):
        edges.setdefault(edge.node, []).append((edge.index, edge.next, edge.input_nr))
    names = {node.id: node.name for node in trace.rows(schema.Node)}
    (task,) = trace.rows(schema.GraphTask)
    assert task.end >= task.begin, "the backward has ended"
    numbers, order = {task.roots[0]: 0}, [task.roots[0]]
    found = []
    for node in order:
        row = []
        for _, following, nr in sorted(edges.get(node, [])):
            if following >= 0 and following not in numbers:
                numbers[following] = len(order)
                order.append(following)
            row.append((numbers[following] if following >= 0 else None, nr))
        found.append((names[node], tuple(row)))
    assert found == shape, (found, shape)
    saved = [(names[s.node], s.slot) for s in trace.rows(schema.Saved)]
    assert saved.count(("MulBackward0", "self")) == 2, saved
    assert saved.count(("ExpBackward0", "result")) == 1, saved
    assert all(s.released >= 0 for s in trace.rows(schema.Saved))
    accumulated = sorted(e.how for e in trace.events(schema.Accumulate))
    assert accumulated == [schema.Accumulation.STOLEN] * 2, accumulated


def graph_of(root: Any) -> list[Any]:
    numbers, order = {root: 0}, [root]
    found = []
    for node in order:
        row = []
        for following, nr in node.next_functions:
            if following is not None and following not in numbers:
                numbers[following] = len(order)
                order.append(following)
            row.append((None if following is None else numbers[following], nr))
        found.append((type(node).__name__, tuple(row)))
    return found


DETECTORS: tuple[Detector, ...] = (
    gradients,
    second_gradients,
    writes_through_views,
    stale_values_are_refused,
    freed_graphs_are_refused,
    leaves_are_guarded,
    gradients_are_nobody_elses,
    sums_leave_others_alone,
    gradients_add_up,
    hooks_are_heard_once_and_in_order,
    nodes_are_heard,
    only_what_was_asked_for_runs,
    modes_are_restored,
    newest_first,
    traces_keep_their_rules,
    traces_tell_the_graph,
)
