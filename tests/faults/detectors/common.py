"""What the detectors share: leaves, derivatives found by trying, and errors that must come."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

Detector = Callable[[Any], None]

DETECTORS: dict[str, Detector] = {}
"""Every program that notices when an engine is wrong, by name. It is given the module `torch`."""


def detector(program: Detector) -> Detector:
    DETECTORS[program.__name__.replace("_", " ")] = program
    return program


def leaf(torch: Any, *values: Any) -> Any:
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def ones(torch: Any, *shape: int) -> Any:
    return torch.ones(shape, dtype=torch.float64)


def same(found: Any, *wanted: float) -> None:
    """The very numbers."""
    numbers = found.reshape(-1).tolist()
    assert numbers == list(wanted), (numbers, wanted)


def close(found: Any, wanted: list[float]) -> None:
    numbers = found.reshape(-1).tolist()
    assert len(numbers) == len(wanted)
    assert all(abs(a - b) < 1e-4 for a, b in zip(numbers, wanted, strict=True)), (numbers, wanted)


def numeric(torch: Any, function: Callable[[Any], Any], at: list[float]) -> list[float]:
    """The gradient of a function of a vector, by central differences."""
    found = []
    for i in range(len(at)):
        sides = []
        for sign in (1, -1):
            moved = [v + sign * 1e-6 * (k == i) for k, v in enumerate(at)]
            sides.append(function(torch.tensor(moved, dtype=torch.float64)).item())
        found.append((sides[0] - sides[1]) / 2e-6)
    return found


def refused(
    words: str, run: Callable[[], object], kind: type[BaseException] = RuntimeError
) -> None:
    """It has to end in this error."""
    with pytest.raises(kind) as caught:
        run()
    assert words in str(caught.value), caught.value


def function(torch: Any, forward: Any, backward: Any) -> Any:
    """A custom Function made of these two."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Mine", (torch.autograd.Function,), body)


@contextmanager
def without_collector() -> Iterator[None]:
    """What dies inside, dies because nobody refers to it any more."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
