"""Random programs on dual tensors: operations, views and writes give PyTorch's tangents."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.runtime.both import runtime
from tests.shared.searching import TIMES

pytestmark = [
    pytest.mark.torch,
    pytest.mark.search,
    # PyTorch compiles some jvps when the first dual tensor is made.
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
]

SHAPES = ((2, 3), (3,), (2, 1), (), (3, 2), (1, 3))
ROUNDS, PROGRAMS = 4 * TIMES, 50


def method(name: str, *arguments: Any) -> Callable[..., Any]:
    return lambda torch, x, *more: getattr(x, name)(*arguments, *more)


def along(call: Callable[..., Any]) -> Callable[..., Any]:
    """For calls that need a dim."""
    return lambda torch, x: call(torch, x) if x.dim() else x * 1


UNARY = (
    *[
        method(name)
        for name in ["exp", "sin", "tanh", "sigmoid", "abs", "neg", "relu", "clone", "detach"]
    ],
    *[method(name) for name in ["sum", "mean", "flatten", "prod", "amax", "norm", "square"]],
    lambda torch, x: x.t() if x.dim() == 2 else x,
    lambda torch, x: x.unsqueeze(0),
    along(lambda torch, x: torch.softmax(x, 0)),
    along(lambda torch, x: x.cumsum(0)),
    along(lambda torch, x: x[0]),
    along(lambda torch, x: x[..., 1:]),
    along(lambda torch, x: x.unbind(0)[-1]),
    along(lambda torch, x: x.flip(0)),
    along(lambda torch, x: torch.cat([x, x])),
    along(lambda torch, x: torch.logsumexp(x, 0)),
    along(lambda torch, x: x.sort(0)[0]),
    lambda torch, x: x.diagonal() if x.dim() == 2 else x.view_as(x),
    lambda torch, x: torch.where(x > 0, x, x * 2),
    lambda torch, x: x.to(torch.float32).to(torch.float64),
    lambda torch, x: 1 - x**3,
    lambda torch, x: torch.no_grad()(lambda: x * 2)(),
)
BINARY = (
    *[lambda torch, x, y, name=name: getattr(torch, name)(x, y) for name in ("add", "sub", "mul")],
    lambda torch, x, y: x / (y * y + 1),
    lambda torch, x, y: x @ y if x.dim() == y.dim() == 2 and x.shape[1] == y.shape[0] else x * 1,
    lambda torch, x, y: torch.lerp(x, y, 0.3),
    lambda torch, x, y: torch.addcmul(x, x, y),
)
WRITES = (
    *[method(name) for name in ["exp_", "sin_", "neg_", "sigmoid_", "abs_", "tanh_", "floor_"]],
    method("mul_", 2.0),
    method("fill_", 1.5),
    lambda torch, x: x.unsqueeze_(0),
    lambda torch, x: x.t_() if x.dim() == 2 else x,
    along(lambda torch, x: x.__setitem__(0, 3.0)),
    lambda torch, x: x.masked_fill_(x > 0.5, 0.0),
    lambda torch, x: torch.no_grad()(lambda: x.mul_(3.0))(),
)
WRITES_OF_ANOTHER = (
    *[method(name) for name in ("add_", "sub_", "mul_")],
    lambda torch, x, y: x.div_(y * y + 1),
    lambda torch, x, y: x.addcmul_(y, y),
)
TABLES = (UNARY, BINARY, WRITES, WRITES_OF_ANOTHER)


class Step(NamedTuple):
    """One call: which table, which row, on which values."""

    table: int
    row: int
    first: int
    second: int


class Input(NamedTuple):
    shape: tuple[int, ...]
    dual: bool
    grad: bool


def program(seed: int) -> tuple[list[Input], list[Step]]:
    chosen = random.Random(seed)
    inputs = [
        Input(chosen.choice(SHAPES), chosen.random() < 0.6, chosen.random() < 0.5)
        for _ in range(chosen.randint(2, 3))
    ]
    count, steps = len(inputs), []
    for _ in range(chosen.randint(3, 10)):
        table = chosen.choices(range(4), (5, 3, 3, 3))[0]
        first, second = chosen.sample(range(count), 2)
        steps.append(Step(table, chosen.randrange(len(TABLES[table])), first, second))
        count += table < 2
    return inputs, steps


def outcome(torch: Any, seed: int) -> list[Any]:
    """The error it ended in, every value and its tangent, every gradient and its tangent."""
    inputs, steps = program(seed)
    fw, numbers = torch.autograd.forward_ad, np.random.default_rng(seed)
    found: list[Any] = []

    def draw(shape: tuple[int, ...]) -> Any:
        return torch.tensor(numbers.uniform(-1, 1, shape).tolist(), dtype=torch.float64)

    def tangent(tensor: Any) -> Any:
        made = fw.unpack_dual(tensor).tangent
        return None if made is None else made.tolist()

    with fw.dual_level():
        values = []
        for shape, dual, grad in inputs:
            value = draw(shape).requires_grad_(grad)
            values.append(fw.make_dual(value, draw(shape)) if dual else value * 1)
        leaves = [value for value in values if value.requires_grad]
        try:
            for table, row, first, second in steps:
                call = TABLES[table][row]
                made = call(torch, values[first], *([values[second]] if table % 2 else []))
                if table < 2:
                    values.append(made)
        except RuntimeError as error:
            found.append(str(error).splitlines()[0])
        try:
            found += [(value.detach().tolist(), tangent(value)) for value in values]
            last = next((v for v in reversed(values) if v.requires_grad), None)
            if last is not None and leaves:
                grads = torch.autograd.grad(last.sum(), leaves, allow_unused=True)
                found += [None if g is None else (g.tolist(), tangent(g)) for g in grads]
        except RuntimeError as error:
            found.append(type(error))
    return found


def assert_close(ours: Any, theirs: Any, seed: int) -> None:
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), (seed, ours, theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_close(one, other, seed)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-8, abs=1e-8, nan_ok=True), seed
    else:
        assert ours == theirs, seed


@pytest.mark.parametrize("round", range(ROUNDS))
def test_random_programs_have_pytorchs_tangents(round: int) -> None:
    import torch

    for seed in range(round * PROGRAMS, (round + 1) * PROGRAMS):
        assert_close(outcome(runtime(), seed), outcome(torch, seed), seed)
