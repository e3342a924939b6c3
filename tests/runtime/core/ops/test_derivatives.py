"""Every operation passes gradcheck, twice; what does not fails on PyTorch too.

Where a derivative is not to be what the slopes say (rounding, constants cut off, kinks) both fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime import oracle
from tests.runtime.core.ops.op_db.families import DIFFERENTIABLE, asked_of, operation_of
from tests.runtime.oracle import Engine, Real, Sample
from tests.shared.searching import SEARCHING

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # PyTorch's own deprecations
]

Case = tuple[Sample, str]
CASES: list[tuple[str, Case]] = [
    (name, (sample, dtype))
    for name, sample in DIFFERENTIABLE
    if any(isinstance(one, Real) for one in sample.inputs)
    for dtype in ("float64", "complex128")
    if dtype in {"float64", *sample.dtypes}
]


def first_of_each(cases: list[tuple[str, Case]]) -> list[tuple[str, Case]]:
    """One call of each operation and dtype: all gradients are compared with PyTorch's, too."""
    return list(
        {(operation_of(name), case[1]): (name, case) for name, case in cases[::-1]}.values()
    )


def check(engine: Engine, case: Case, order: int) -> None:
    """Raise what gradcheck raises for one call on one engine."""
    sample, dtype = case
    torch = engine.module
    tensors = [engine.wrap(array.copy()) for array in oracle.arrays_for(sample, dtype)]
    for tensor, given in zip(tensors, sample.inputs, strict=True):
        tensor.requires_grad_(isinstance(given, Real))

    def call(*inputs: Any) -> Any:
        torch.manual_seed(0)  # what draws numbers must draw the same ones again
        return tuple(filter(oracle.is_tensor, oracle.flat(sample.call(torch, *inputs))))

    checker = torch.autograd.gradcheck if order == 1 else torch.autograd.gradgradcheck
    checker(call, tuple(tensors), fast_mode=True)


def fails(action: Callable[[], None]) -> bool:
    try:
        action()
    except (RuntimeError, TypeError, ValueError, IndexError, NameError):
        return True
    return False


@pytest.mark.search
@asked_of(CASES if SEARCHING else first_of_each(CASES))
def test_first_derivatives_are_slopes(
    sample: Sample, dtype: str, ours: Engine, theirs: Engine
) -> None:
    fails_only_where_pytorch_fails((sample, dtype), 1, ours, theirs)


@asked_of(first_of_each([case for case in CASES if case[1][0].order > 1]))
def test_second_derivatives_are_slopes_of_the_first(
    sample: Sample, dtype: str, ours: Engine, theirs: Engine
) -> None:
    fails_only_where_pytorch_fails((sample, dtype), 2, ours, theirs)


def fails_only_where_pytorch_fails(case: Case, order: int, ours: Engine, theirs: Engine) -> None:
    try:
        check(ours, case, order)
    except (RuntimeError, TypeError, ValueError, IndexError, NameError):
        if not fails(lambda: check(theirs, case, order)):
            raise
