"""Fusing: adjacent calls of arithmetic on arrays of one shape become one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.fast.capture.recording.evaluating import added
from gradscope.runtime.fast.capture.recording.recording import Facts
from gradscope.runtime.fast.capture.recording.trees import ArrayRef, SameValue, StepCall

LEAST, MOST = 3, 24
"""Smallest and largest number of calls in a kernel. Long chains repeat, and compile once."""
SAVED = 10
"""The number of calls that a kernel has to save in each replay."""
SMALL = 1 << 11
"""Elements up to which NumPy's own loops are as fast; see playing.py."""
KINDS = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True, slots=True)
class Chain:
    """Adjacent calls as one loop over the elements of arrays."""

    first: int
    count: int
    given: tuple[int, ...]
    made: tuple[int, ...]
    names: tuple[str, ...]  # of the results, in the lines
    lines: tuple[str, ...]
    shape: tuple[int, ...]
    kind: Any


def worth_compiling(chains: dict[int, Chain]) -> dict[int, Chain]:
    """All of these chains, or none if they save too few calls to pay for compiling."""
    kernels = {(chain.lines, chain.names, chain.kind) for chain in chains.values()}
    saved = sum(chain.count - 1 for chain in chains.values())
    return chains if saved >= SAVED * len(kernels) else {}


@cache
def arithmetic() -> dict[Any, str]:
    """Expressions of functions by their arguments, for those with the same bits as NumPy's."""
    mul, neg, sub, tanh = (REGISTRY[n] for n in ("mul", "neg", "sub", "tanh"))
    found: dict[Any, str] = {
        np.add: "{0} + {1}",
        np.subtract: "{0} - {1}",
        np.multiply: "{0} * {1}",
        np.negative: "-{0}",
        added: "{0} + {1}",
        tanh.formulas[0].function: "(f(1) - {1} * {1}) * {0}",
        neg.formulas[0].function: "-{0}",
    }
    for formula in mul.formulas:
        found[formula.function] = "{0} * {1}"
    if len(sub.formulas) == 2 and sub.formulas[1].words == ("grad",):
        found[sub.formulas[1].function] = "-{0}"
    return found


class Fusing:
    """Finds chains among the calls of a plan."""

    def __init__(
        self, calls: Sequence[StepCall], facts: dict[int, Facts], last: dict[int, int]
    ) -> None:
        self.calls = calls
        self.facts = facts
        self.last = last  # position of the last call that reads an array

    def chains(self) -> dict[int, Chain]:
        """Chains by the position of their first call."""
        found: dict[int, Chain] = {}
        place = 0
        while place < len(self.calls):
            end = self._end(place)
            chain = self._chain(place, end) if end - place >= LEAST else None
            if chain is not None and chain.made:  # else its results are not needed
                found[place] = chain
            place = max(end, place + 1)
        return found

    def _end(self, first: int) -> int:
        """The position after the last call that continues the arithmetic begun at `first`."""
        place, facts = first, None
        while place < len(self.calls) and place - first < MOST:
            found = self._facts_of(self.calls[place])
            if found is None or (facts is not None and found != facts):
                break
            facts = found
            place += 1
        return place

    def _facts_of(self, call: StepCall) -> Facts | None:
        """The common layout of all arrays of a call, if it is arithmetic."""
        if call.function not in arithmetic() or call.named or not isinstance(call.made, int):
            return None
        if len(call.given) != (2 if "{1}" in arithmetic()[call.function] else 1):
            return None  # the other array is the output
        facts = self.facts[call.made]
        whole = (
            prod(facts.shape) > SMALL
            and facts.dtype in KINDS
            and facts.contiguous
            and not call.whole
        )
        if not whole or not any(isinstance(value, ArrayRef) for value in call.given):
            return None
        for value in call.given:
            if isinstance(value, ArrayRef):
                if self.facts[value.nr] != facts:
                    return None
            elif number(value, facts.dtype) is None:
                return None
        return facts

    def _chain(self, first: int, end: int) -> Chain:
        names: dict[int, str] = {}
        given: list[int] = []
        lines = []
        calls = self.calls[first:end]
        facts = self.facts[calls[0].made]
        for nr, call in enumerate(calls):
            values = []
            for value in call.given:
                if not isinstance(value, ArrayRef):
                    values.append(f"f({number(value, facts.dtype)!r})")
                    continue
                if value.nr not in names:
                    names[value.nr] = f"x{len(given)}"
                    given.append(value.nr)
                values.append(names[value.nr])
            names[call.made] = f"y{nr}"
            lines.append(f"y{nr} = {arithmetic()[call.function].format(*values)}")
        made = [call.made for call in calls if self.last.get(call.made, -1) >= end]
        kept = tuple([names[nr] for nr in made])
        return Chain(
            first,
            end - first,
            tuple(given),
            tuple(made),
            kept,
            tuple(lines),
            facts.shape,
            facts.dtype,
        )


def number(value: Any, kind: Any) -> float | None:
    """The number that a constant of this kind is."""
    if not isinstance(value, SameValue):
        return None
    array = value.value
    if isinstance(array, np.ndarray) and not array.ndim and array.dtype == kind:
        number = float(array)
        return number if np.isfinite(number) else None
    return None
