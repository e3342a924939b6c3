"""Level `values`: what is looked at, that looking changes nothing, and the births it shows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import orjson
import pytest

import gradscope.runtime as torch
from gradscope.analysis.nonfinite.births import births
from gradscope.record.from_runtime.values.measured import Measured
from gradscope.record.recorder import record
from gradscope.trace.load_save import load
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    BufferAdded,
    Finding,
    HookEnd,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Place,
    TaskBegin,
    Value,
)
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.runtime.both import function
from tests.runtime.graphs import SHAPES

HUGE = 3e38  # twice this is more than float32 holds

SHOWN = ("in_place", "how", "remaining", "length")


def traced(program: Callable[[], object], level: str = "values") -> Trace:
    with record(level=level) as recording:
        program()
    trace = recording.trace()
    assert check(trace) == []
    return trace


def leaf(*values: float) -> Any:
    return torch.tensor(list(values), requires_grad=True)


def born(trace: Trace) -> list[tuple[str, str, str]]:
    """Every birth: what, at which kind of place, and at which node or call."""
    nodes, ops = trace.table(Node), trace.table(Op)
    return [
        (
            birth.kind,
            birth.place.name,
            ops.row(birth.op).name
            if birth.op != NONE
            else nodes.row(birth.node).name
            if birth.node != NONE
            else "",
        )
        for birth in births(trace).births
    ]


def places(trace: Trace) -> list[str]:
    return [Place(row.place).name for row in trace.rows(Value)]


# -- the births that other tools do not see -----------------------------------------------------


def test_two_gradients_that_overflow_where_they_meet() -> None:
    def program() -> None:
        y = leaf(0.001) * 1
        (y * HUGE + y * HUGE).sum().backward()

    assert born(traced(program)) == [("Inf", "BUFFER", "MulBackward0")]


def test_inf_minus_inf_where_two_gradients_meet() -> None:
    def program() -> None:
        x = leaf(1.0)
        y = x * 1
        up, down = y * 10, y * 10
        up.register_hook(lambda grad: grad * HUGE * 10)
        down.register_hook(lambda grad: grad * -HUGE * 10)
        (up + down).sum().backward()

    assert born(traced(program)) == [
        ("Inf", "HOOK", "MulBackward0"),
        ("Inf", "HOOK", "MulBackward0"),
        ("NaN", "BUFFER", "MulBackward0"),
    ]


def test_a_hook_that_returns_a_nan() -> None:
    def program() -> None:
        x = leaf(1.0)
        y = x * 2
        z = y * 3
        z.register_hook(lambda grad: grad * float("nan"))
        z.sum().backward()

    assert born(traced(program)) == [("NaN", "HOOK", "MulBackward0")]


def test_a_gradient_that_overflows_across_steps() -> None:
    def program() -> None:
        x = leaf(1.0)
        for _ in range(3):
            (x * HUGE).sum().backward()

    trace = traced(program)
    assert born(trace) == [("Inf", "GRAD", "AccumulateGrad")]
    assert births(trace).births[0].task != NONE


# -- births elsewhere ------------------------------------------------------------------------------


def test_a_nan_born_in_a_call_and_handed_on() -> None:
    def program() -> None:
        x = leaf(-1.0)
        (x.log() * 2).sum().backward()

    assert born(traced(program)) == [("NaN", "OP_OUTPUT", "log")]


def test_an_inf_born_in_a_backward() -> None:
    def program() -> None:
        leaf(0.0, 1.0).sqrt().sum().backward()

    assert born(traced(program)) == [("Inf", "NODE_OUTPUT", "SqrtBackward0")]


def test_data_that_came_with_a_nan() -> None:
    def program() -> None:
        (leaf(1.0) * torch.tensor([float("nan")])).sum().backward()

    assert born(traced(program)) == [("NaN", "LEAF", "")]


def test_a_gradient_that_backward_was_given() -> None:
    def program() -> None:
        (leaf(1.0) * 2).backward(torch.tensor([float("inf")]))

    assert born(traced(program)) == [("Inf", "SEED", "MulBackward0")]


@pytest.mark.parametrize(
    ("register", "node"),
    [
        (lambda y, z, x: z.grad_fn.register_prehook(lambda grads: (grads[0] / 0,)), "MulBackward0"),
        (
            lambda y, z, x: z.grad_fn.register_hook(lambda grads, _: (grads[0] / 0, None)),
            "MulBackward0",
        ),
        (lambda y, z, x: x.register_hook(lambda grad: grad / 0), "AccumulateGrad"),
        (
            lambda y, z, x: y.register_hook(lambda grad: grad.mul_(float("inf")) and None),
            "MulBackward0",
        ),
    ],
)
def test_hooks_of_every_kind(register: Any, node: str) -> None:
    def program() -> None:
        x = leaf(1.0)
        y = x * 2
        z = y * 3
        register(y, z, x)
        z.sum().backward()

    assert born(traced(program)) == [("Inf", "HOOK", node)]


def test_a_step_in_a_post_accumulate_hook_is_code_like_any_other() -> None:
    def program() -> None:
        x = leaf(1.0)
        x.register_post_accumulate_grad_hook(lambda x: x.grad.div_(0) and None)
        (x * 2).sum().backward()
        with torch.no_grad():
            x.sub_(x.grad)
        (x * 3).sum()

    assert born(traced(program)) == [("Inf", "OP_OUTPUT", "div_")]


def test_a_backward_that_users_wrote_is_named_by_its_line() -> None:
    """The call inside it is where it was born; what the node returned only hands it on."""
    mine = function(torch, lambda ctx, x: x * 1, lambda ctx, grad: (grad - 1).log())

    def program() -> None:
        mine.apply(leaf(1.0) * 1).sum().backward()

    assert born(traced(program)) == [("Inf", "OP_OUTPUT", "log")]


def test_a_backward_that_makes_its_gradient_of_nothing() -> None:
    mine = function(torch, lambda ctx, x: x * 1, lambda ctx, grad: torch.tensor([float("nan")]))

    def program() -> None:
        mine.apply(leaf(1.0) * 1).sum().backward()

    assert born(traced(program)) == [("NaN", "NODE_OUTPUT", "MineBackward")]


def test_a_forward_that_users_wrote() -> None:
    mine = function(torch, lambda ctx, x: x.log(), lambda ctx, grad: grad)

    def program() -> None:
        mine.apply(leaf(-1.0)).sum().backward()

    assert born(traced(program)) == [("NaN", "OP_OUTPUT", "log")]


def test_the_same_births_when_the_way_back_is_recorded() -> None:
    def program() -> None:
        x = leaf(0.0)
        y = x.sqrt()
        torch.autograd.grad((y * HUGE + y * HUGE).sum(), x, create_graph=True)

    assert born(traced(program)) == [
        ("Inf", "BUFFER", "SqrtBackward0"),
    ]


def test_what_is_made_of_a_bad_gradient_is_no_birth() -> None:
    def program() -> None:
        x = leaf(0.0)
        optimizer = torch.optim.SGD([x], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=False)
            x.sqrt().sum().backward()
            torch.nn.utils.clip_grad_norm_([x], 1.0)
            optimizer.step()

    first, *others = born(traced(program))
    assert first == ("Inf", "NODE_OUTPUT", "SqrtBackward0")
    assert ("NaN", "LEAF", "") not in others


def test_what_is_made_of_a_gradient_asked_for_is_no_birth() -> None:
    def program() -> None:
        x = leaf(0.0)
        (grad,) = torch.autograd.grad(x.sqrt().sum(), x)
        grad * 2

    assert born(traced(program)) == [("Inf", "NODE_OUTPUT", "SqrtBackward0")]


def test_a_gradient_that_was_cleared_can_be_born_again() -> None:
    def program() -> None:
        x = leaf(1.0)
        for _ in range(2):
            (x * HUGE).sum().backward()
            (x * HUGE).sum().backward()
            x.grad.zero_()

    assert born(traced(program)) == [("Inf", "GRAD", "AccumulateGrad")] * 2


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("create_graph", [False, True])
def test_healthy_programs_have_no_births_and_nothing_is_unchecked(
    shape: str, create_graph: bool
) -> None:
    for seed in range(4):
        trace = traced(lambda seed=seed: run(shape, seed, create_graph))

        assert births(trace).births == ()
        assert births(trace).propagated == 0


def run(shape: str, seed: int, create_graph: bool) -> None:
    try:
        torch.autograd.backward(SHAPES[shape](torch, Random(seed)), create_graph=create_graph)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise


# -- no observer effect
# -----------------------------------------------------------------------------


def happenings(trace: Trace) -> list[Any]:
    """What the engine did, without times."""
    return [
        (
            type(event).__name__,
            *(getattr(event, name) for name in SHOWN if hasattr(event, name)),
        )
        for event in trace.events()
    ]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_the_engine_does_the_same_when_it_is_looked_at(shape: str) -> None:
    for seed in range(4):
        found = [
            happenings(traced(lambda seed=seed: run(shape, seed, False), level))
            for level in ("engine", "values", "full")
        ]

        assert found[0] == found[1] == found[2]


def test_gradients_are_still_taken_over_and_added_in_place() -> None:
    def program() -> None:
        x = torch.ones(4, requires_grad=True)
        y = x * 1
        ((y * 2) + (y * 3) + (y * 4)).sum().backward()
        (x * 2).sum().backward()

    trace = traced(program)
    assert [event.in_place for event in trace.rows(BufferAdded)] == [True, True]
    assert [event.how for event in trace.rows(Accumulate)] == [0, 2]


def test_two_leaves_do_not_share_a_gradient_when_looked_at() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    traced(lambda: (x + y).sum().backward())
    x.grad.add_(100)

    assert y.grad.tolist() == [1.0, 1.0]


# -- what is known again -----------------------------------------------------------------------


def seen(program: Callable[[], object]) -> list[Any]:
    """All that values say, without when."""
    return [
        (row.place, row.node, row.index, row.tensor, row.count, row.nan, row.posinf, row.zero,
         row.min, row.max, pytest.approx(row.mean), pytest.approx(row.norm), row.bad)
        for row in traced(program).rows(Value)
    ]  # fmt: skip


def assert_knowing_changes_nothing(
    program: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = seen(program)
    with monkeypatch.context() as patch:
        patch.setattr(Measured, "of_gradient", Measured.row)
        patch.setattr(Measured, "of_view", Measured.row)
        assert found == seen(program)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_known_again_are_as_they_are(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4):
        assert_knowing_changes_nothing(lambda seed=seed: run(shape, seed, False), monkeypatch)


def doubled_in_place(ctx: Any, grad: Any) -> Any:
    grad.mul_(2)
    return grad


def doubled_by_numpy(ctx: Any, grad: Any) -> Any:
    grad.numpy()[...] *= 2
    return grad


def shared_by_two(backward: Any) -> Callable[[], object]:
    """Two branches get one gradient, and the one that runs first writes into it."""

    def program() -> None:
        mine = function(torch, lambda ctx, x: x * 1, backward)
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        ((mine.apply(x * 1) + mine.apply(y * 1)) * 2).sum().backward()

    return program


def hooked(hook: Callable[[Any], object]) -> Callable[[], object]:
    def program() -> None:
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        left, right = x * 1, y * 1
        right.register_hook(hook)
        ((left + right.view(2, 1).view(2)) * 2).sum().backward()

    return program


def by_numpy(grad: Any) -> None:
    grad.numpy()[...] *= 3


def by_mul(grad: Any) -> None:
    grad.mul_(3)


def by_address(tensor: Any) -> None:
    (ctypes.c_float * 2).from_address(tensor.data_ptr())[1] = 9.0


def by_storage(tensor: Any) -> None:
    (ctypes.c_float * 2).from_address(tensor.untyped_storage().data_ptr())[1] = 9.0


WRITES: tuple[Callable[[Any], object], ...] = (
    by_numpy,
    by_mul,
    by_address,
    by_storage,
    lambda y: y.untyped_storage().__setitem__(3, 64),
    lambda y: y.untyped_storage().bytes().fill(64),
    lambda y: y[1:].add_(3),
    lambda y: by_numpy(y[1:]),
    lambda y: y.data.fill_(4),
    lambda y: y.copy_(torch.zeros(2)),
    lambda y: y.__setitem__(0, 5.0),
    lambda y: np.asarray(y).fill(3),
    lambda y: torch.add(y, 1, out=y),
    lambda y: torch.from_dlpack(y).zero_(),
    lambda y: setattr(y, "data", torch.zeros(2)),
)


def written_before_a_view(write: Callable[[Any], object]) -> Callable[[], object]:
    def program() -> None:
        y = torch.ones(2) + 1
        y.view(2, 1)
        write(y)
        y.view(2, 1)
        y[:].unsqueeze(1).t()

    return program


def handing_on_memory_of_its_own() -> None:
    memory = np.ones(2, np.float32)
    mine = function(torch, lambda ctx, x: torch.from_numpy(memory), lambda ctx, grad: grad)
    y = mine.apply(leaf(1.0, 2.0))
    memory[0] = 8
    y.detach().view(2, 1)


def added_to_the_seed() -> None:
    x, seed = leaf(1.0, 2.0), torch.tensor([3.0, 4.0])
    x.grad = seed
    (x + leaf(1.0, 1.0)).backward(seed)


def leaves_with_one_gradient() -> None:
    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    x.grad = y.grad = torch.ones(2)
    (x * 2 + y * 3).sum().backward()


def stepping_in_a_hook() -> None:
    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    x.register_post_accumulate_grad_hook(lambda x: by_numpy(x.grad))
    (x + y).sum().backward()
    (x + y).sum().backward()


@pytest.mark.parametrize(
    "program",
    [
        *map(written_before_a_view, WRITES),
        handing_on_memory_of_its_own,
        shared_by_two(doubled_in_place),
        shared_by_two(doubled_by_numpy),
        hooked(by_numpy),
        hooked(by_mul),
        added_to_the_seed,
        leaves_with_one_gradient,
        stepping_in_a_hook,
    ],
)
def test_what_is_written_to_on_the_way_is_looked_at_again(
    program: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_knowing_changes_nothing(program, monkeypatch)


def test_a_result_is_measured_once_for_all_its_views(monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> None:
        y = torch.ones(2, 6) + 1
        y.view(3, 4).t().unsqueeze(0)
        torch.addmm(y, y, torch.ones(6, 6)).reshape(-1)

    assert_knowing_changes_nothing(program, monkeypatch)
    looked: list[Any] = []
    fill = Measured._fill
    monkeypatch.setattr(
        Measured,
        "_fill",
        lambda self, array, *rest: (looked.append(0), fill(self, array, *rest))[1],
    )
    assert len(places(traced(program))) == len(looked) + 4


def test_what_a_pause_left_out_is_looked_at() -> None:
    """Nobody told of what was written meanwhile."""
    numbers = torch.ones(3) + 1
    with record(level="values", steps=(1, 1)) as recording:
        recording.step(1)
        y = numbers + 1
        recording.step(2)
        y.add_(5)
        recording.step(1)
        y.view(3, 1)

    assert [row.max for row in recording.trace().rows(Value)][-1] == 8


# -- rows ------------------------------------------------------------------------------------------


def test_every_place_is_looked_at_and_linked() -> None:
    def program() -> None:
        x = leaf(1.0, 2.0)
        y = x * 2
        y.register_hook(lambda grad: grad * 3)
        (y + y * y).sum().backward()

    trace = traced(program)
    assert set(places(trace)) == {place.name for place in Place}
    kinds = {
        Place.NODE_INPUT: NodeBegin,
        Place.NODE_OUTPUT: NodeEnd,
        Place.BUFFER: BufferAdded,
        Place.HOOK: HookEnd,
        Place.GRAD: Accumulate,
        Place.SEED: TaskBegin,
    }
    for row in trace.rows(Value):
        if row.place == Place.OP_OUTPUT:
            assert row.tensor in trace.table(Op).row(row.op).outputs
        elif row.place != Place.LEAF:
            events = {event.seq: event for event in trace.rows(kinds[Place(row.place)])}
            assert events[row.seq].task == row.task
            assert getattr(events[row.seq], "node", row.node) == row.node
            assert events[row.seq].t <= row.t


def test_each_addition_has_a_value_of_its_own() -> None:
    def program() -> None:
        x = leaf(1.0)
        y = x * 1
        (y * y + y * y + y).sum().backward()

    trace = traced(program)
    added = [event.seq for event in trace.rows(BufferAdded)]
    sums = [row for row in trace.rows(Value) if row.place == Place.BUFFER]
    assert sorted(row.seq for row in sums) == added
    assert len(added) == 4


def test_statistics_are_of_the_finite_elements() -> None:
    def program() -> None:
        torch.tensor([3.0, 0.0, -4.0, float("nan"), float("inf"), float("-inf")]) + 0

    row = next(iter(traced(program).rows(Value)))
    assert (row.count, row.nan, row.posinf, row.neginf, row.zero) == (6, 1, 1, 1, 1)
    assert (row.min, row.max, row.norm) == (-4.0, 3.0, 5.0)
    assert row.mean == pytest.approx(-1 / 3)
    assert row.rms == pytest.approx(np.sqrt(25 / 3))
    assert row.bad == (3, 4, 5)


def test_small_tensors_are_kept_whole_at_level_full() -> None:
    def program() -> None:
        torch.tensor([[1.0, float("nan")], [float("-inf"), 0.5]]) + 0
        torch.ones(1000) + 0

    data = [row.data for row in traced(program, "full").rows(Value)]
    assert orjson.loads(data[0]) == [[1.0, "nan"], ["-inf", 0.5]]
    assert data[0] == data[1]
    assert data[2:] == ["", ""]


def test_values_are_not_kept_at_level_values() -> None:
    assert {row.data for row in traced(lambda: torch.ones(2) + 0).rows(Value)} == {""}


def test_the_first_nan_and_the_first_inf_are_findings() -> None:
    def program() -> None:
        x = leaf(0.0)
        y = x.sqrt()
        (y * 0).sum().backward()
        (y + 1) / 0

    trace = traced(program)
    found = [(row.kind, row.message, Place(row.place).name) for row in trace.rows(Finding)]
    assert found == [
        (
            "nan",
            "the first NaN is in a gradient that a node returned: 1 of 1 elements",
            "NODE_OUTPUT",
        ),
        ("inf", "the first Inf is in the result of a call: 1 of 1 elements", "OP_OUTPUT"),
    ]
    first = next(iter(trace.rows(Finding)))
    assert trace.source(first.stack) == "(y * 0).sum().backward()"
    assert {event.seq for event in trace.rows(NodeEnd) if event.node == first.node} == {first.seq}


def test_at_level_engine_nothing_is_looked_at() -> None:
    assert len(traced(lambda: leaf(1.0).log().sum().backward(), "engine").table(Value)) == 0


def test_values_survive_a_file(tmp_path: Any) -> None:
    path = tmp_path / "trace.json"
    with record(path, level="full"):
        leaf(-1.0).log().sum().backward()

    trace = load(path)
    assert born(trace) == [("NaN", "OP_OUTPUT", "log")]
    assert check(trace) == []
