"""Arguments of a recorded call: arrays by number, everything else unchanged."""

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
    """A tensor with the array of this number, for functions that take tensors."""

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
    """One call of a step: a function, its arguments, and the numbers of the arrays it created.

    `made` is None for a function without result, a number for one array, otherwise a tuple, with
    None for what is not an array. `whole` says that the result may be a number, which becomes an
    array. `told` are changes that the function itself makes to tensors, beyond values.
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
    begin: int = 0  # time of its recorded run, in nanoseconds
    end: int = 0


def refs(tree: Any) -> list[int]:
    """The numbers of all arrays in an argument."""
    if isinstance(tree, ArrayRef | TensorOf):
        return [tree.nr]
    if isinstance(tree, Items):
        return [nr for item in tree.items for nr in refs(item)]
    return []


def read_by(call: StepCall) -> list[int]:
    """The numbers of the arrays that a call receives."""
    return [nr for value in (*call.given, *call.named.values()) for nr in refs(value)]


def made_by(call: StepCall) -> list[int]:
    """The numbers of the arrays that a call creates."""
    if call.made is None:
        return []
    if isinstance(call.made, int):
        return [call.made]
    return [nr for nr in call.made if nr is not None]
