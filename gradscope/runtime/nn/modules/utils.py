"""`torch.nn.modules.utils`: helpers that expand one value to a tuple."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from gradscope.runtime.core.errors import missing

__all__ = ["_ntuple", "_pair", "_quadruple", "_reverse_repeat_tuple", "_single", "_triple"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats one value n times as a tuple, and leaves several unchanged."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Each value n times, in reverse order."""
    return tuple(x for x in reversed(t) for _ in range(n))


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.nn.modules.utils", name, __all__)
