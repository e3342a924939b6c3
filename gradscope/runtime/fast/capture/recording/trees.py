"""Arguments of a recorded call: arrays by number, everything else as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ArrayRef:
    """The array with this number."""

    nr: int


@dataclass(frozen=True, slots=True)
class TensorOf:
    """A tensor around the array with this number, for what takes tensors."""

    nr: int


@dataclass(frozen=True, slots=True)
class SameValue:
    """A value that is the same in each replay."""

    value: Any


@dataclass(frozen=True, slots=True)
class Items:
    """A list, tuple or dict of such arguments."""

    kind: type
    items: tuple[Any, ...]
    keys: tuple[Any, ...] = ()


@dataclass(slots=True)
class StepCall:
    """One call of a step: a function, what it is given, and the numbers of the arrays it made.

    `made` is None for a function that gives nothing, a number for one array, else a tuple, with
    None for what is no array. `whole` says that the result may be a number, which becomes an array.
    `told` are changes that the function itself makes to tensors, beyond numbers.
    """

    function: Callable[..., Any]
    given: tuple[Any, ...]
    named: dict[str, Any]
    made: Any
    label: str
    part: str  # "forward", "backward" or "optimizer"
    line: str
    whole: bool = False
    kind: str = "call"
    begin: int = 0  # when it ran while it was recorded, in nanoseconds
    end: int = 0


def refs(tree: Any) -> list[int]:
    """The numbers of all arrays in an argument."""
    if isinstance(tree, ArrayRef | TensorOf):
        return [tree.nr]
    if isinstance(tree, Items):
        return [nr for item in tree.items for nr in refs(item)]
    return []


def read_by(call: StepCall) -> list[int]:
    """The numbers of the arrays that a call is given."""
    return [nr for value in (*call.given, *call.named.values()) for nr in refs(value)]


def made_by(call: StepCall) -> list[int]:
    """The numbers of the arrays that a call makes."""
    if call.made is None:
        return []
    if isinstance(call.made, int):
        return [call.made]
    return [nr for nr in call.made if nr is not None]
