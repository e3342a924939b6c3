"""Every operation passes gradcheck, twice; what does not fails on PyTorch too.

Where a derivative is not to be what the slopes say (rounding, constants cut off, kinks) both fail.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime import oracle
from tests.runtime.oracle import SAMPLES, Engine, Real, Sample

for _module in pkgutil.iter_modules(importlib.import_module("tests.runtime.ops.samples").__path__):
    importlib.import_module(f"tests.runtime.ops.samples.{_module.name}")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # PyTorch's own deprecations
]

Case = tuple[Sample, str]
CASES: dict[str, list[Case]] = {
    name: [
        (sample, dtype)
        for sample in given
        if sample.grad and any(isinstance(one, Real) for one in sample.inputs)
        for dtype in ("float64", "complex128")
        if dtype in {"float64", *sample.dtypes}
    ]
    for name, given in sorted(SAMPLES.items())
}
NAMES = [name for name, cases in CASES.items() if cases]


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


@pytest.mark.parametrize("name", NAMES)
def test_first_derivatives_are_slopes(name: str) -> None:
    ours, theirs = oracle.ours(), oracle.theirs()
    failed = [case for case in CASES[name] if fails(lambda c=case: check(ours, c, 1))]

    assert [case for case in failed if not fails(lambda c=case: check(theirs, c, 1))] == []


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_are_slopes_of_the_first(name: str) -> None:
    """One call of each operation and dtype: a second derivative takes ten times as long."""
    ours, theirs = oracle.ours(), oracle.theirs()
    chosen = {dtype: (s, dtype) for s, dtype in reversed(CASES[name]) if s.order > 1}
    failed = [case for case in chosen.values() if fails(lambda c=case: check(ours, c, 2))]

    assert [case for case in failed if not fails(lambda c=case: check(theirs, c, 2))] == []
