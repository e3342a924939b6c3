"""Rules 37, 38 and 40: checkpoints, checked gradients, and gradients in batches."""

from __future__ import annotations

import importlib
import weakref
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.trace import Trace
from tests.runtime.both import function, leaf, raises
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


# -- checked gradients ----------------------------------------------------------------------------


def squares(torch: Any, slope: float = 2.0, wobble: float = 0.0) -> Any:
    """A custom Function x², whose backward says 2x; or something else, or never the same."""
    runs: list[int] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        runs.append(1)
        return grad * x * slope * (1 + wobble * len(runs))

    return function(torch, forward, backward).apply


def failure(torch: Any, action: Any) -> str:
    """The first line of the GradcheckError that an action ends in."""
    home = importlib.import_module(f"{torch.__name__}.autograd.gradcheck")
    return raises(home.GradcheckError, action)


def backwards(trace: Trace) -> list[tuple[bool, bool]]:
    """For each backward whether it kept the graph, and whether it made one."""
    return [(task.keep_graph, task.create_graph) for task in trace.rows(schema.GraphTask)]


@pytest.mark.rule(38)
def test_gradcheck_runs_backward_twice_for_each_number_and_fast_mode_twice_for_all(
    torch: Any, seen: Seen
) -> None:
    x = leaf(torch, 1.0, 2.0)

    assert torch.autograd.gradcheck(squares(torch), x)
    assert torch.autograd.gradcheck(squares(torch), x, fast_mode=True)
    assert (x.grad, x._version, x.tolist()) == (None, 0, [1.0, 2.0])

    def shows(trace: Trace) -> bool:
        # Twice per number, then once from zeros, then once from nothing.
        slow, fast = [(True, False)] * 4, [(True, False)] * 2
        once = [(False, False)] * 2
        lost = [b for b in trace.events(schema.BufferMade) if b.undefined]
        return backwards(trace) == slow + once + fast + once and len(lost) == 2

    seen(shows)


@pytest.mark.rule(38)
def test_gradgradcheck_checks_a_backward_as_it_checks_a_forward(torch: Any, seen: Seen) -> None:
    x = leaf(torch, 1.0, 2.0)
    lost = function(
        torch,
        lambda _ctx, a: a * 2,
        lambda _ctx, grad: (grad.detach() if torch.is_grad_enabled() else grad) * 2,
    ).apply

    assert torch.autograd.gradgradcheck(squares(torch), x)
    assert torch.autograd.gradgradcheck(squares(torch), x, fast_mode=True)
    assert torch.autograd.gradcheck(lost, x)
    assert (
        failure(torch, lambda: torch.autograd.gradgradcheck(lost, x))
        == "Numerical gradient for function expected to be zero"
    )

    def shows(trace: Trace) -> bool:
        made = [create for _, create in backwards(trace)]
        return any(made) and not all(made)

    seen(shows)


@pytest.mark.rule(38)
def test_a_complex_output_is_checked_as_its_imaginary_and_its_real_half(
    torch: Any, seen: Seen
) -> None:
    z = torch.tensor([1 + 2j], dtype=torch.complex128, requires_grad=True)

    def turned(real: float, imaginary: float) -> Any:
        """z · i, whose backward stretches either half of what it gets."""

        def backward(_ctx: Any, grad: Any) -> Any:
            return torch.complex(grad.real * real, grad.imag * imaginary) * -1j

        return function(torch, lambda _ctx, a: a * 1j, backward, name="Turned").apply

    for fast_mode in (False, True):
        assert torch.autograd.gradcheck(turned(1.0, 1.0), z, fast_mode=fast_mode)
        for part, wrong in (("imaginary", turned(1.0, 2.0)), ("real", turned(2.0, 1.0))):

            def check(func: Any = wrong, fast: bool = fast_mode) -> None:
                torch.autograd.gradcheck(func, z, fast_mode=fast)

            assert failure(torch, check) == (
                f"While considering the {part} part of complex outputs only, Jacobian mismatch for "
                "output 0 with respect to input 0,"
            )

    def shows(trace: Trace) -> bool:
        names = {node.id: node.name for node in trace.rows(schema.Node)}
        roots = [names[root] for task in trace.rows(schema.GraphTask) for root in task.roots]
        whole = ["TurnedBackward", "UndefinedGradBackward"]
        return roots[:6] == ["SelectBackward0"] * 4 + whole  # the halves are picked by select

    seen(shows)


@pytest.mark.rule(38)
@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_says_what_is_wrong_with_a_backward(
    torch: Any, seen: Seen, *, fast_mode: bool
) -> None:
    x = leaf(torch, 1.0, 2.0)

    def said(func: Any, **how: Any) -> str:
        return failure(torch, lambda: torch.autograd.gradcheck(func, x, fast_mode=fast_mode, **how))

    assert said(squares(torch, 3.0)) == "Jacobian mismatch for output 0 with respect to input 0,"
    assert said(squares(torch, wobble=1e-9)) == (
        "Backward is not reentrant, i.e., running backward with same input and grad_output "
        "multiple times gives different values, although analytical gradient matches numerical "
        "gradient.The tolerance for nondeterminism was 0.0."
    )
    assert torch.autograd.gradcheck(
        squares(torch, wobble=1e-9), x, fast_mode=fast_mode, nondet_tol=1e-5
    )
    assert said(lambda a: a.detach()) == "Numerical gradient for function expected to be zero"
    assert not torch.autograd.gradcheck(
        squares(torch, 3.0), x, fast_mode=fast_mode, raise_exception=False
    )

    def shows(trace: Trace) -> bool:
        """What gradcheck raises is no failure of a backward: all of them came to their end."""
        return list(trace.events(schema.Error)) == [] and all(
            task.end > 0 and not task.error for task in trace.rows(schema.GraphTask)
        )

    seen(shows)


@pytest.mark.rule(38)
@pytest.mark.filterwarnings("ignore:Backwards compatibility")
def test_gradcheck_hands_backwards_gradients_that_never_came(torch: Any, seen: Seen) -> None:
    x = leaf(torch, 1.0, 2.0)

    def func(when_missing: Any) -> Any:
        def forward(ctx: Any, a: Any) -> Any:
            ctx.set_materialize_grads(False)
            return a * 2

        def backward(_ctx: Any, grad: Any) -> Any:
            return when_missing() if grad is None else grad * 2

        return function(torch, forward, backward, name="Fragile").apply

    def refuse() -> None:
        raise RuntimeError("no gradient")

    notes = 'Please look at "Notes about undefined output gradients" in '
    notes += '"tools/autograd/derivatives.yaml"'
    assert torch.autograd.gradcheck(func(lambda: None), x)
    assert failure(torch, lambda: torch.autograd.gradcheck(func(refuse), x)) == (
        f"Expected backward function to handle undefined output grads. {notes}"
    )
    assert failure(
        torch,
        lambda: torch.autograd.gradcheck(func(lambda: torch.ones(2, dtype=torch.float64)), x),
    ) == (
        "Expected all input grads to be undefined or zero when all output grads are undefined or "
        f"zero. {notes}"
    )
    assert torch.autograd.gradcheck(func(refuse), x, check_undefined_grad=False)

    def shows(trace: Trace) -> bool:
        names = {node.id: node.name for node in trace.rows(schema.Node)}
        (error,) = trace.events(schema.Error)
        return (names[error.node], error.message) == ("FragileBackward", "no gradient")

    seen(shows)


@pytest.mark.rule(38)
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # by PyTorch's own tangents
def test_gradcheck_of_forward_mode_alone_runs_no_backward(torch: Any, seen: Seen) -> None:
    x = leaf(torch, 1.0, 2.0)

    def check(**how: Any) -> Any:
        return torch.autograd.gradcheck(
            lambda a: (a * a, a), x, check_forward_ad=True, check_backward_ad=False, **how
        )

    assert check()
    assert check(fast_mode=True)
    assert check(check_batched_forward_grad=True)
    assert (x.grad, x._version) == (None, 0)

    seen(lambda trace: list(trace.rows(schema.GraphTask)) == [])


# -- gradients in batches -------------------------------------------------------------------------


@pytest.mark.rule(40)
def test_a_batch_of_gradients_is_one_backward_per_row_and_the_last_frees_what_was_saved(
    torch: Any, seen: Seen
) -> None:
    x, unused = leaf(torch, 1.0, 2.0), leaf(torch, 1.0)
    squared = x * x
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)

    found, nothing = torch.autograd.grad(
        squared, (x, unused), rows, is_grads_batched=True, allow_unused=True
    )

    assert (found.tolist(), nothing) == ([[2.0, 0.0], [0.0, 4.0], [2.0, 4.0]], None)
    assert raises(
        RuntimeError, lambda: torch.autograd.grad(squared, x, rows, is_grads_batched=True)
    ).startswith("Trying to backward through the graph a second time")

    def shows(trace: Trace) -> bool:
        tasks = list(trace.rows(schema.GraphTask))
        freed = {event.task for event in trace.events(schema.SavedReleased)}
        kept = [task.keep_graph for task in tasks[:3]]
        return kept == [True, True, False] and freed == {tasks[2].id}

    seen(shows)


@pytest.mark.rule(40)
def test_batches_refuse_what_does_not_fit_before_anything_runs(torch: Any, seen: Seen) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0)
    grad = torch.autograd.grad

    def ones(*shape: int) -> Any:
        return torch.ones(shape, dtype=torch.float64)

    def said(kind: type[BaseException], outputs: Any, given: Any) -> str:
        return raises(kind, lambda: grad(outputs, (x, y), given, is_grads_batched=True))

    assert said(RuntimeError, x * y, ones(3)).startswith(
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
        "batch dimension."
    )
    assert said(ValueError, (x * y, y * 2), (ones(3, 2), ones(2, 1))) == (
        "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
        "[3, 2] for the mapped dimension"
    )
    assert said(IndexError, x * y, ones(0, 2)).startswith("index 0 is out of bounds")

    seen(lambda trace: list(trace.rows(schema.GraphTask)) == [])


@pytest.mark.rule(40)
def test_vectorized_jacobians_and_hessians_are_those_made_row_by_row(
    torch: Any, seen: Seen
) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0)
    functional = torch.autograd.functional

    def two(a: Any, b: Any) -> Any:
        return a * b, (a**3).sum()

    plain = functional.jacobian(two, (x, y))
    vectorized = functional.jacobian(two, (x, y), vectorize=True)
    assert [[m.tolist() for m in row] for row in vectorized] == [
        [m.tolist() for m in row] for row in plain
    ]
    graph = functional.jacobian(two, (x, y), vectorize=True, create_graph=True)
    assert torch.autograd.grad(graph[1][0].sum(), x)[0].tolist() == [6.0, 12.0]

    def number(a: Any) -> Any:
        return (a**3).sum()

    assert (
        functional.hessian(number, x, vectorize=True).tolist()
        == functional.hessian(number, x).tolist()
        == [[6.0, 0.0], [0.0, 12.0]]
    )

    def shows(trace: Trace) -> bool:
        # Three numbers, each by itself; then three rows; then three that make a graph, and one
        # backward through it; two Hessians of a gradient and two rows.
        made = [create for _, create in backwards(trace)]
        return made == [False] * 6 + [True] * 3 + [False] + [True, False, False] * 2

    seen(shows)
