"""Rules 37 to 40: checkpoints, checked gradients, copies, and gradients in batches."""

from __future__ import annotations

import importlib
import weakref
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.run import Trace
from tests.runtime.autograd.both import leaf, raises
from tests.runtime.rules.conftest import Seen


def checkpoints(torch: Any) -> Any:
    """torch.utils.checkpoint, as a program imports it."""
    return importlib.import_module(f"{torch.__name__}.utils.checkpoint")


def calls(trace: Trace, name: str) -> list[int]:
    """The graph task that each call of an operation ran in; NONE outside of backwards."""
    return [op.task for op in trace.rows(schema.Op) if op.name.split(".")[0] == name]


@pytest.mark.rule(37)
def test_a_checkpoint_runs_again_with_the_same_random_numbers_and_keeps_only_its_inputs(
    torch: Any, seen: Seen
) -> None:
    intermediate: list[weakref.ref[Any]] = []
    drawn: list[Any] = []

    def noisy(x: Any) -> Any:
        drawn.append(torch.rand(2).tolist())
        y = (x * drawn[-1][0]).sin()
        intermediate.append(weakref.ref(y))
        return y.cos()

    checkpoint = checkpoints(torch).checkpoint
    x = leaf(torch, 0.5, 1.0)
    torch.manual_seed(0)
    first = checkpoint(noisy, x, use_reentrant=False)
    second = checkpoint(noisy, first, use_reentrant=True)
    assert [held() for held in intermediate] == [None, None]
    state = torch.get_rng_state().tolist()
    second.sum().backward()

    assert drawn == [drawn[0], drawn[1], drawn[1], drawn[0]]
    assert torch.get_rng_state().tolist() == state
    assert [held() for held in intermediate] == [None] * 4
    kept = x.detach().requires_grad_()
    plain = ((kept * drawn[0][0]).sin().cos() * drawn[1][0]).sin().cos()
    (expected,) = torch.autograd.grad(plain.sum(), kept)
    assert x.grad.tolist() == expected.tolist()

    def shows(trace: Trace) -> bool:
        outer, inner, _ = trace.rows(schema.GraphTask)
        names = {node.id: node.name for node in trace.rows(schema.Node)}
        entered = [(names[e.node], e.depth) for e in trace.events(schema.ReentrantEnter)]
        return (
            (inner.parent, inner.depth) == (outer.id, 1)
            and entered == [("CheckpointFunctionBackward", 1)]
            # forward, twice; again in the outer task, the reentrant one first; then plainly
            and calls(trace, "sin") == [-1, -1, outer.id, outer.id, -1, -1]
        )

    seen(shows)


@pytest.mark.rule(37)
def test_nested_checkpoints_run_again_from_the_outside_in_and_stop_as_early_as_they_can(
    torch: Any, seen: Seen
) -> None:
    checkpoint = checkpoints(torch).checkpoint
    reached: list[str] = []

    def inner(x: Any) -> Any:
        reached.append("inner")
        y = x.sin().cos()
        reached.append("end of inner")
        return y + 1

    def outer(x: Any) -> Any:
        reached.append("outer")
        y = checkpoint(inner, x.exp(), use_reentrant=False)
        z = y.tanh()
        reached.append("end of outer")
        return z + 1

    x = leaf(torch, 0.5)
    (expected,) = torch.autograd.grad((x.exp().sin().cos() + 1).tanh() + 1, x)
    z = checkpoint(outer, x, use_reentrant=False)
    assert reached == ["outer", "inner", "end of inner", "end of outer"]
    reached.clear()
    z.backward()
    assert reached == ["outer", "inner", "end of inner", "inner"]
    assert x.grad.tolist() == expected.tolist()

    reached.clear()
    with checkpoints(torch).set_checkpoint_early_stop(False):
        z = checkpoint(outer, x, use_reentrant=False)
    z.backward()
    whole = ["outer", "inner", "end of inner", "end of outer"]
    assert reached == [*whole, *whole, "inner", "end of inner"]

    def shows(trace: Trace) -> bool:
        plain, early, late = (task.id for task in trace.rows(schema.GraphTask))
        ran = calls(trace, "add")
        return ran.count(early) == 1 and ran.count(late) == 3 and plain not in ran

    seen(shows)


@pytest.mark.rule(37)
def test_a_checkpoint_that_does_something_else_the_second_time_is_an_error(
    torch: Any, seen: Seen
) -> None:
    checkpoint = checkpoints(torch).checkpoint
    count = 0

    def fewer(x: Any) -> Any:
        nonlocal count
        count += 1
        return x.sin().cos() if count == 1 else x.sin()

    def other(x: Any) -> Any:
        nonlocal count
        count += 1
        return x.sin() if count == 3 else x[:1].sin()

    error = checkpoints(torch).CheckpointError
    y = checkpoint(fewer, leaf(torch, 0.5, 1.0), use_reentrant=False)
    assert raises(error, y.sum().backward) == (
        "torch.utils.checkpoint: A different number of tensors was saved during the original "
        "forward and recomputation."
    )
    y = checkpoint(other, leaf(torch, 0.5, 1.0), use_reentrant=False)
    assert raises(error, y.sum().backward) == (
        "torch.utils.checkpoint: Recomputed values for the following tensors have different "
        "metadata than during the forward pass."
    )
    x = leaf(torch, 0.5)
    y = checkpoint(torch.sin, x, use_reentrant=True)
    assert raises(RuntimeError, lambda: y.backward(inputs=[x])) == (
        "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing "
        "an `inputs` parameter to .backward(). To resolve this error, you can either set "
        "use_reentrant=False, or call .backward() without passing the `inputs` argument."
    )

    def shows(trace: Trace) -> bool:
        ended = [task.error.split(":")[0] for task in trace.rows(schema.GraphTask)]
        return [name.split(".")[-1] for name in ended] == [
            "CheckpointError",
            "CheckpointError",
            "RuntimeError",
        ]

    seen(shows)
