"""The recorded calls of a step, and the arrays they received and created."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns as clock
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from gradscope.runtime.core.calls.road_text.scope import NUMBERS32, NUMBERS64
from gradscope.runtime.core.devices.devices import device
from gradscope.runtime.core.dtypes.dtypes import dtype
from gradscope.runtime.core.dtypes.memory_formats import memory_format
from gradscope.runtime.core.kernels.support import ALL_PLAIN
from gradscope.runtime.core.state.frames import outside, past_stand_ins
from gradscope.runtime.core.state.generator import Generator
from gradscope.runtime.core.state.settings import layout
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.fast.capture.recording.trees import (
    ArrayRef,
    Items,
    SameValue,
    StepCall,
    TensorOf,
)

PLAIN = (int, float, bool, complex, str, bytes, type(None), type(Ellipsis), range)
CONSTANTS = (
    *PLAIN, np.dtype, dtype, device, layout, memory_format, type, FunctionType, BuiltinFunctionType,
    Generator,
)  # fmt: skip
"""Types of values that are the same in each replay: from code, or checked by guards."""


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a step, or a piece of it, cannot be replayed, and where."""

    reason: str
    line: str = ""
    place: int = 0  # the line of the step that led there; 0: none
    about: str = ""  # the variable concerned, if no line is known

    def __str__(self) -> str:
        return f"{self.reason} at {self.line}" if self.line else self.reason


FROM_THE_START = [StopReason("GRADSCOPE_PLAIN=1 turns off compiled code")] if ALL_PLAIN else []
"""Reasons that stop every recording of this process."""


class Facts(NamedTuple):
    """The layout of an array that a step created."""

    shape: tuple[int, ...]
    dtype: Any
    contiguous: bool


class StepRecording:
    """What one step has done with arrays so far."""

    def __init__(self, code: CodeType | None = None, *, records: bool = True) -> None:
        self.code = code  # of the step
        self.records = records  # else only running code is watched
        self.thread = threading.get_ident()
        self.first_node = next(local.state.sequence)  # the step's nodes have higher numbers
        self.calls: list[StepCall] = []
        self.stops: list[StopReason] = []
        self.inside = 0
        self.part = "forward"
        self.told: dict[int, int] = {}  # writes that calls count themselves, by id
        self.begun: dict[int, tuple[int, int]] = {}  # gradients begun, with their first version
        self.leaves: set[int] = set()  # the tensors that existed before, by id
        self.containers: set[int] = set()  # lists and dicts that existed before, by id
        self.facts: dict[int, Facts] = {}
        self.named: dict[int, tuple[str, str, int]] = {}
        """For arrays that existed before: kind, name, and index of their tensor."""
        self._numbers: dict[int, int] = {}
        self._alive: dict[int, Any] = {}  # not held: references to an array influence what is done
        self._count = 0

    # -- arrays ---------------------------------------------------------------------------------

    def new(self, array: Any) -> int:
        """A new number for an array, which replaces an old one."""
        nr, self._count = self._count, self._count + 1
        self.facts[nr] = Facts(array.shape, array.dtype, array.flags.c_contiguous)
        number = id(array)
        self._numbers[number] = nr
        if number not in self._alive:
            self._alive[number] = ref(array, partial(self._gone, number))
        return nr

    def _gone(self, number: int, _: Any) -> None:
        """Forget an array: another one may get this id."""
        self._numbers.pop(number, None)
        self._alive.pop(number, None)

    def numbers_now(self) -> dict[int, tuple[int, Any]]:
        """A snapshot of the numbers of arrays."""
        return {key: (nr, self._alive[key]) for key, nr in self._numbers.items()}

    def go_back_to(self, numbers: dict[int, tuple[int, Any]]) -> None:
        """Restore the numbers of arrays that still exist; others have none."""
        alive = self._alive
        self._numbers = {key: nr for key, (nr, it) in numbers.items() if alive.get(key) is it}

    def number(self, array: Any) -> int | None:
        """The number of a known array; None if unknown."""
        return self._numbers.get(id(array))

    def known(self, array: Any) -> int:
        """The number of an array that must be known."""
        return self._numbers[id(array)]

    def constant(self, array: Any) -> None:
        """Make known an array with the same values in each replay."""
        if self.listens and self.number(array) is None:
            kept = array.copy()
            self.calls.append(self.call(kept.copy, (), {}, self.new(array), "constant"))

    # -- calls ----------------------------------------------------------------------------------

    @property
    def listens(self) -> bool:
        """Whether calls of this thread are recorded now."""
        return (
            self.records
            and not (self.inside or self.stops)
            and self.thread == threading.get_ident()
        )

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        named: dict[str, Any] | None = None,
        *,
        label: str = "",
        kind: str = "call",
    ) -> Any:
        """Call a function on arrays, record it, and return its result, with numbers as arrays."""
        named = named or {}
        if not self.listens:
            return function(*args, **named)
        given = tuple([self.tree(value) for value in args])
        by_name = {name: self.tree(value) for name, value in named.items()}
        self.inside += 1
        begin = clock()
        try:
            result = function(*args, **named)
        finally:
            end = clock()
            self.inside -= 1
        result, whole = _as_arrays(result)
        made = self._made(result, label)
        call = self.call(function, given, by_name, made, label, whole=whole, kind=kind)
        call.begin, call.end = begin, end
        self.calls.append(call)
        return result

    def _made(self, result: Any, label: str) -> Any:
        if result is None:
            return None
        if isinstance(result, np.ndarray):
            return self.new(result)
        several = isinstance(result, list | tuple)
        if several and all(one is None or isinstance(one, np.ndarray) for one in result):
            return tuple([None if one is None else self.new(one) for one in result])
        self.stop(f"{label} returns a {type(result).__name__}, not arrays")
        return None

    def call(
        self, function: Any, given: Any, named: Any, made: Any, label: str, **how: Any
    ) -> StepCall:
        now = clock()
        return StepCall(
            function, given, named, made, label, self.part, line_now(), begin=now, end=now, **how
        )

    def tree(self, value: Any) -> Any:
        """An argument with numbers for its arrays. An unknown array stops the recording."""
        if isinstance(value, Tensor):
            nr = self._known(value._array)
            return TensorOf(nr) if nr is not None else SameValue(value)
        if isinstance(value, np.ndarray | np.generic):
            nr = self._known(value)
            return ArrayRef(nr) if nr is not None else SameValue(value)
        if isinstance(value, dict):
            items = tuple([self.tree(item) for item in value.values()])
            return Items(dict, items, tuple(value))
        if isinstance(value, list | tuple):
            items = tuple([self.tree(item) for item in value])
            if all(isinstance(item, SameValue) for item in items) and isinstance(value, tuple):
                return SameValue(value)
            plain = type(value) in (list, tuple)
            if not plain and any(not isinstance(item, SameValue) for item in items):
                self.stop(f"an argument is a {type(value).__name__} of arrays")
            return Items(list if isinstance(value, list) else tuple, items)
        if isinstance(value, slice):
            parts = [self.tree(part) for part in (value.start, value.stop, value.step)]
            if not all(isinstance(part, SameValue) for part in parts):
                self.stop("a bound of a slice is a tensor")
            return SameValue(value)
        if not isinstance(value, CONSTANTS):
            self.stop(f"an argument is a {type(value).__name__}")
        return SameValue(value)

    def _known(self, array: Any) -> int | None:
        nr = self.number(array)
        if nr is None and not _is_number(array):
            self.stop("an array of unknown origin is used")
        return nr

    def stop(self, reason: str, line: str | None = None, about: str = "") -> None:
        """Store why this cannot be replayed; the step continues normally."""
        place = 0 if line == "" else self._place()
        self.stops.append(StopReason(reason, line_now() if line is None else line, place, about))

    def _place(self) -> int:
        """The running line of the step."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code is not self.code:
            frame = frame.f_back
        return frame.f_lineno if frame.f_code is self.code else 0


def _is_number(array: Any) -> bool:
    """Whether an array is one of the cached numbers of calls."""
    if getattr(array, "ndim", 1) or isinstance(array, np.generic):
        return False
    known = NUMBERS32 if array.dtype == np.float32 else NUMBERS64
    return any(number is array for number in known.values())


def _as_arrays(result: Any) -> tuple[Any, bool]:
    """A kernel's result with numbers as arrays, and whether there were numbers."""
    if isinstance(result, np.ndarray) or result is None:
        return result, False
    if isinstance(result, np.generic | int | float | bool | complex):
        return np.asarray(result), True
    if isinstance(result, list | tuple) and any(isinstance(one, np.generic) for one in result):
        return [None if one is None else np.asarray(one) for one in result], True
    return result, False


def line_now() -> str:
    """The running line of the program, as file:line."""
    frame = outside(sys._getframe(1))
    while (caller := past_stand_ins(frame)) is not frame:  # a watcher's, among the runtime's
        frame = outside(caller)
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
