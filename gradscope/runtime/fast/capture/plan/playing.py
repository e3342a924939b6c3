"""Playing: adjacent calls that only run NumPy's loops over small arrays, called as one.

See Note [Loops without NumPy around them]. Intermediate results lie in one preallocated piece of
memory. Results that others read have their own memory.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.fast.capture.plan.fusing import KINDS, SMALL, arithmetic, number
from gradscope.runtime.fast.capture.recording.recording import Facts
from gradscope.runtime.fast.capture.recording.trees import ArrayRef, StepCall, read_by, refs
from gradscope.runtime.fast.compiling.numpy_loops import SCRATCH, LoopCall, loop_of, player

LEAST, MOST = 2, 1000
"""Smallest and largest number of calls that become one: other threads have to wait meanwhile."""
LINE = 64
"""Alignment of arrays in bytes."""
OPERATORS: dict[type, np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.USub: np.negative,
}


class Number(NamedTuple):
    """A number of a kind as an operand. Other operands are numbers of arrays."""

    text: str  # as text, which distinguishes zeros
    kind: str


class LoopStep(NamedTuple):
    """One loop, before arrays have addresses: its operands, the last one is its result."""

    loop: tuple[int, int]
    operands: tuple[int | Number, ...]
    dims: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """Adjacent calls as one call of loops."""

    first: int
    count: int
    given: tuple[int, ...]
    made: tuple[int, ...]  # results with their own memory
    run: Any
    lines: tuple[str, ...]


class Playing:
    """Finds such calls, and lays out their shared memory."""

    def __init__(
        self, calls: Sequence[StepCall], facts: dict[int, Facts], last: dict[int, int]
    ) -> None:
        self.calls = calls
        self.facts = dict(facts)  # temporaries have negative numbers
        self.last = last
        self._for_a_while_so_far = 0
        self.steps = [self._steps(call) for call in calls]
        self.played: dict[int, Played] = {}
        self.room = SCRATCH + -SCRATCH % LINE
        self.numbers: dict[Number, int] = {}
        self._places: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}
        spans = self._spans()
        inside = {place for span in spans for place in range(*span)}
        self._shared = self._read_by_others(inside)
        for first, end in spans:
            self.played[first] = self._play(first, end)
        self.values = np.zeros(len(self.numbers), np.int64)
        """The numbers among the operands, one word each."""
        for one, place in self.numbers.items():
            self.values[place : place + 1].view(one.kind)[0] = float(one.text)

    def _spans(self) -> list[tuple[int, int]]:
        """Adjacent calls of one part of the step that are all loops: first and end."""
        found, first = [], 0
        for place in range(len(self.calls) + 1):
            ends = place == len(self.calls) or not self.steps[place]
            if ends or place - first == MOST or self.calls[place].part != self.calls[first].part:
                if sum(map(len, self.steps[first:place])) >= LEAST:
                    found.append((first, place))
                first = place + ends
        return found

    def _read_by_others(self, inside: set[int]) -> set[int]:
        """The arrays that other calls read, too."""
        read = {nr for nr, place in self.last.items() if place == len(self.calls)}
        for place, call in enumerate(self.calls):
            if place not in inside:
                read.update(read_by(call))
        return read

    # -- memory layout ---------------------------------------------------------------------------

    def _play(self, first: int, end: int) -> Played:
        """These calls as one, with the addresses of arrays."""
        calls = self.calls[first:end]
        made = tuple([call.made for call in calls if call.made in self._shared])
        read = {nr: None for call in calls for value in call.given for nr in refs(value)}
        inner = self._inner(calls)
        given = tuple([nr for nr in read if nr not in made and nr not in inner])
        slots = {nr: slot for slot, nr in enumerate((*given, *made), 2)}
        loops = []
        for place, call in enumerate(calls, first):
            for step in self.steps[place]:
                arrays = tuple([self._where(one, slots) for one in step.operands])
                loops.append(LoopCall(step.loop, arrays, step.dims, step.steps))
            self._let_go(place, call)
        return Played(first, end - first, given, made, player(loops), _lines(calls))

    def _inner(self, calls: Sequence[StepCall]) -> set[int]:
        """The arrays in the memory that all such calls share."""
        return (self._places.keys() | {call.made for call in calls}) - self._shared

    def _where(self, operand: int | Number, slots: dict[int, int]) -> tuple[int, int]:
        """The array that contains an operand, and the offset in bytes."""
        if isinstance(operand, Number):
            return 1, 8 * self.numbers.setdefault(operand, len(self.numbers))
        if operand in slots:
            return slots[operand], 0
        if operand not in self._places:
            size = self._size(operand)
            free = self._free.setdefault(size, [])
            if not free:
                free.append(self.room)
                self.room += size
            self._places[operand] = free.pop()
        return 0, self._places[operand]

    def _let_go(self, place: int, call: StepCall) -> None:
        """Reuse the memory of arrays after their last use."""
        used = {one for step in self.steps[place] for one in step.operands}
        over = [nr for nr in used if isinstance(nr, int) and nr < 0]
        read = {nr for value in call.given for nr in refs(value)} | {call.made}
        over += [nr for nr in read & self._places.keys() if self.last.get(nr, place) == place]
        for nr in over:
            self._free[self._size(nr)].append(self._places.pop(nr))

    def _size(self, nr: int) -> int:
        size = prod(self.facts[nr].shape) * self.facts[nr].dtype.itemsize
        return size + -size % LINE

    # -- the loops of a call ---------------------------------------------------------------------

    def _steps(self, call: StepCall) -> list[LoopStep]:
        """The loops of a call; none if it does something else."""
        function = call.function
        if call.named or call.whole or not isinstance(call.made, int):
            return []
        made = self.facts[call.made]
        if not made.contiguous or not 0 < prod(made.shape) <= SMALL or not made.dtype.isnative:
            return []
        if function in _products():
            return self._product(call, made, _products()[function])
        if call.label == "constant":
            return self._constant(call, made)
        given = [self._operand(value, made) for value in call.given]
        known = [one for one in given if one is not None]
        if len(known) < len(given):
            return []
        if isinstance(function, np.ufunc):
            fits = (len(known), 1) == (function.nin, function.nout)
            step = self._loop(function, known, call.made) if fits else None
            return [] if step is None else [step]
        text = arithmetic().get(function, "")
        if not text or len(known) != 1 + ("{1}" in text):
            return []
        tree = ast.parse(text.format("a", "b"), mode="eval").body
        steps: list[LoopStep] = []
        done = self._value(tree, dict(zip("ab", known, strict=False)), call.made, steps)
        return [] if done is None else steps

    def _operand(self, value: Any, made: Facts) -> int | Number | None:
        """An argument that is an array like the result, or a number."""
        if not isinstance(value, ArrayRef):
            found = number(value, made.dtype)
            return None if found is None else Number(repr(found), made.dtype.char)
        facts = self.facts[value.nr]
        alike = facts.shape in {made.shape, ()} and facts.contiguous and facts.dtype.isnative
        return value.nr if alike else None

    def _loop(self, ufunc: np.ufunc, given: Sequence[int | Number], made: int) -> LoopStep | None:
        """The loop of a function over elements of these kinds, if it has one."""
        operands = (*given, made)
        kinds = [np.dtype(one.kind) if isinstance(one, Number) else self.facts[one].dtype
                 for one in operands]  # fmt: skip
        chars = "".join([kind.char for kind in kinds])
        loop = loop_of(ufunc, f"{chars[:-1]}->{chars[-1]}")
        if loop is None:
            return None
        steps = [0 if isinstance(one, Number) or not self.facts[one].shape else kind.itemsize
                 for one, kind in zip(operands, kinds, strict=True)]  # fmt: skip
        return LoopStep(loop, operands, (prod(self.facts[made].shape),), tuple(steps))

    def _constant(self, call: StepCall, made: Facts) -> list[LoopStep]:
        """The loop that fills an array with a number, if the call does so."""
        if made.shape or made.dtype not in KINDS:
            return []
        value: Any = getattr(call.function, "__self__", None)
        step = self._loop(np.positive, [Number(repr(float(value)), made.dtype.char)], call.made)
        return [] if step is None else [step]

    def _value(
        self, tree: ast.expr, names: dict[str, int | Number], made: int, steps: list[LoopStep]
    ) -> int | Number | None:
        """The operand for an expression, after adding the steps of its parts; None: no loop."""
        if isinstance(tree, ast.Name):
            return names[tree.id]
        if isinstance(tree, ast.Call):
            (value,) = tree.args
            assert isinstance(value, ast.Constant)
            return Number(repr(value.value), self.facts[made].dtype.char)
        assert isinstance(tree, ast.BinOp | ast.UnaryOp)
        parts = [tree.left, tree.right] if isinstance(tree, ast.BinOp) else [tree.operand]
        given = []
        for part in parts:
            found = self._value(part, names, self._for_a_while(made), steps)
            if found is None:
                return None
            given.append(found)
        step = self._loop(OPERATORS[type(tree.op)], given, made)
        if step is None:
            return None
        steps.append(step)
        return made

    def _for_a_while(self, like: int) -> int:
        """A number for a temporary array like another."""
        self._for_a_while_so_far -= 1
        self.facts[self._for_a_while_so_far] = self.facts[like]
        return self._for_a_while_so_far

    def _product(
        self, call: StepCall, made: Facts, way: tuple[int, bool, int, bool]
    ) -> list[LoopStep]:
        """The loop of a matrix product, one of whose operands may be transposed."""
        if any(not isinstance(value, ArrayRef) for value in call.given[:2]):
            return []
        numbers = [call.given[nr].nr for nr in (way[0], way[2])]
        shapes, steps = [], []
        for nr, turned in zip(numbers, (way[1], way[3]), strict=True):
            facts = self.facts[nr]
            if facts.dtype != made.dtype or not facts.contiguous or len(facts.shape) != 2:
                return []
            far = (facts.shape[1] * facts.dtype.itemsize, facts.dtype.itemsize)
            shapes.append(facts.shape[::-1] if turned else facts.shape)
            steps.append(far[::-1] if turned else far)
        (rows, count), columns = shapes[0], shapes[1][1]
        sizes = (rows, count, columns)
        if made.shape != (rows, columns) or min(sizes) < LEAST or prod(sizes) > SMALL * LINE:
            return []
        kind = made.dtype
        loop = loop_of(np.matmul, f"{kind.char}{kind.char}->{kind.char}")
        if loop is None or kind.char not in "fd":
            return []
        far = (columns * kind.itemsize, kind.itemsize)
        all_steps = (0, 0, 0, *steps[0], *steps[1], *far)
        return [LoopStep(loop, (*numbers, call.made), (1, *sizes), all_steps)]


def _lines(calls: Sequence[StepCall]) -> tuple[str, ...]:
    """What each call computes, as it is displayed."""
    made = {call.made: f"y{place}" for place, call in enumerate(calls)}
    read = dict.fromkeys(nr for call in calls for value in call.given for nr in refs(value))
    names = {
        nr: f"x{place}" for place, nr in enumerate([nr for nr in read if nr not in made])
    } | made
    lines = []
    for call in calls:
        values = [names[v.nr] if isinstance(v, ArrayRef) else str(v.value) for v in call.given]
        text = arithmetic().get(call.function) or f"{call.label}({', '.join(values)})"
        if call.label == "constant":
            text = str(getattr(call.function, "__self__", ""))
        elif call.function in _products():
            left, left_turned, right, right_turned = _products()[call.function]
            ends = ".T" * left_turned, ".T" * right_turned
            text = f"{values[left]}{ends[0]} @ {values[right]}{ends[1]}"
        lines.append(f"{names[call.made]} = {text.replace('f(1)', '1').format(*values)}")
    return tuple(lines)


@cache
def _products() -> dict[Any, tuple[int, bool, int, bool]]:
    """Functions that multiply two arguments: index and transposition of each operand."""
    of_mm = REGISTRY["mm"]
    return {
        of_mm.kernel: (0, False, 1, False),
        of_mm.formulas[0].function: (0, False, 1, True),
        of_mm.formulas[1].function: (1, True, 0, False),
    }
