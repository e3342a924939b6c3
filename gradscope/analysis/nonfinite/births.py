"""Where each NaN and Inf originated.

A NaN originates where none of the operands holds one and the result does; an Inf where all operands
are finite and the result is not. There are six kinds of such places: a forward call, a node's
backward, an addition in an input buffer, a hook, the accumulation into `.grad`, and what came from
outside (a leaf, or the gradient that was passed to backward). An Inf that is an argument of a call
is not counted, as in `scores.masked_fill(mask, -inf)`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.lookups import member
from gradscope.analysis.nonfinite.causes import Causes, inherited
from gradscope.analysis.nonfinite.lineage import Finiteness, Lineage, without_operands
from gradscope.analysis.program.calls import SAME_NUMBERS
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Op, Place, Tensor, Value
from gradscope.trace.table import Table
from gradscope.trace.trace import Trace

VALUES_LEVELS = ("values", "full")

WRITES_WHAT_IT_IS_TOLD = frozenset(
    ("fill", "full", "full_like", "index_fill", "masked_fill", "new_full", "scatter", "where")
)
"""Operations whose Inf is one of their arguments."""

HOLDS_LOGARITHMS_OF_ZERO = {"_ctc_loss": 1}
"""Operations with a result, given by its index, in which −Inf marks impossible cases."""


@dataclass(frozen=True, slots=True)
class Birth:
    """One place at which a tensor became non-finite: the origin of a NaN or Inf."""

    value: int  # the id of its statistics
    kind: str  # "NaN" or "Inf"
    place: Place
    op: int
    node: int
    index: int
    tensor: int
    task: int
    step: int
    seq: int
    t: int
    count: int
    nan: int
    posinf: int
    neginf: int
    bad: tuple[int, ...]
    from_inf: bool  # a NaN produced from an earlier Inf
    unchecked: int  # operands without recorded statistics
    cause: int = NONE  # the value at which it all began: its own, or that of an earlier birth


@dataclass(frozen=True, slots=True)
class Births:
    """Every origin of a NaN or an Inf, in the order of time."""

    checked: bool  # whether the trace contains statistics
    births: tuple[Birth, ...]
    propagated: int  # places that were non-finite only because an operand was


def not_finite(values: Table[Value]) -> NDArray[np.bool_]:
    """Which tensors contained a NaN or an Inf."""
    wrong: NDArray[np.bool_] = values["nan"] + values["posinf"] + values["neginf"] > 0
    return wrong


def births(trace: Trace) -> Births:
    values = trace.table(Value)
    checked = len(values) > 0 or trace.meta.get("level") in VALUES_LEVELS
    if not not_finite(values).any():
        return Births(checked, (), 0)
    found: list[Birth] = []
    propagated = 0
    lineage, causes, alone = Lineage(trace), Causes(trace), _Alone(trace)
    told, logarithms = _told(trace), _logarithms(trace)
    for row in _in_time(trace):
        place = member(Place, row.place)
        if place is None:
            continue
        operands = lineage.operands(row, place)
        birth = _birth(row, place, operands)
        meant = birth and (birth.op in told or logarithms.get(birth.op) == birth.index)
        cause = NONE
        if birth and alone.explain(birth, meant=bool(meant)):
            propagated += 1
        elif birth and not (birth.kind == "Inf" and meant):
            cause = causes.of_birth(birth, operands, may_be_given=may_be_given(birth))
            found.append(replace(birth, cause=cause))
        elif not birth and (row.nan or row.posinf or row.neginf):
            cause = inherited(operands)
            propagated += 1
        lineage.keep(row, place, cause)
    return Births(checked, tuple(found), propagated)


def may_be_given(birth: Birth) -> bool:
    """Whether it is an Inf that may be intended by the program, as in a mask of −Inf."""
    seen_first = birth.place is Place.OP_OUTPUT and birth.unchecked > 0
    return birth.kind == "Inf" and (birth.place is Place.LEAF or seen_first)


ONLY_MOVES = SAME_NUMBERS | {
    "as_strided", "cat", "copy", "empty", "empty_like", "empty_strided", "fill", "flip", "gather",
    "hstack", "index", "index_select", "lift_fresh", "new_empty", "new_empty_strided", "repeat",
    "resize", "resize_as", "roll", "scatter", "set", "stack", "to", "tril", "triu", "vstack",
}  # fmt: skip
"""Calls that are never an origin: what they return was in their inputs, or in uninitialized
memory."""

COLLECTIVES = ("c10d::", "_c10d_functional::")
"""Beginnings of the names of collective operations."""


class _Alone:
    """Calls that created no node, whose inputs are not known.

    On PyTorch they are recorded only where their result is not finite. The first of each kind is
    counted as an origin; the others are assumed to have received its result, and so is a tensor
    that has the same bad elements where it is first seen.
    """

    def __init__(self, trace: Trace) -> None:
        ops, chosen = trace.table(Op), without_operands(trace)
        columns = (ops[name][chosen].tolist() for name in ("id", "stack", "name"))
        rows = [*zip(*columns, strict=True)]
        self._lines = {id: (line, name) for id, line, name in rows}
        moves = {name: _only_moves(trace, name) for name in {row[2] for row in rows}}
        self._moves = {id for id, _, name in rows if moves[name]}
        self._first: dict[str, tuple[int, int]] = {}  # by kind: the line, and the call's name
        self._looks: set[tuple[object, ...]] = set()
        tensors = trace.table(Tensor)
        self._written = set(tensors["id"][tensors["version"] > 0].tolist())

    def explain(self, birth: Birth, *, meant: bool) -> bool:
        """Whether a birth follows from the first of them."""
        looks = (birth.count, birth.nan, birth.posinf, birth.neginf, birth.bad)
        if birth.op in self._lines and birth.place is Place.LEAF:  # data entered the program
            self._looks.add(looks)
            self._first.setdefault(birth.kind, (NONE, NONE))
            return False
        if birth.op in self._lines and birth.place is Place.OP_OUTPUT:
            if birth.op in self._moves:
                return True
            if meant and birth.kind == "Inf":
                return False
            line = self._lines[birth.op]
            self._looks.add(looks)
            return self._first.setdefault(birth.kind, line) != line
        outside = birth.place is Place.LEAF and birth.node == NONE
        if outside and birth.tensor in self._written and birth.kind in self._first:
            return True  # values from outside were written into it
        unknown = birth.place is Place.LEAF or birth.unchecked > 0
        return unknown and bool(birth.bad) and looks in self._looks


def _told(trace: Trace) -> frozenset[int]:
    """The calls that write a value passed as an argument."""
    ops = trace.table(Op)
    names = ops["name"]
    told = [
        name
        for name in distinct(names).tolist()
        if _base_name(trace, name) in WRITES_WHAT_IT_IS_TOLD
    ]
    return frozenset(ops["id"][np.isin(names, told)].tolist())


def _only_moves(trace: Trace, name: int) -> bool:
    """Whether such calls are never an origin.

    A collective returns before its result is there: what its memory held was measured.
    """
    return _base_name(trace, name) in ONLY_MOVES or trace.text(name).startswith(COLLECTIVES)


def _base_name(trace: Trace, name: int) -> str:
    """`fill` for `fill_.Scalar`."""
    return trace.text(name).partition(".")[0].rstrip("_")


def _logarithms(trace: Trace) -> dict[int, int]:
    """Calls with a result of logarithms of zero, and the index of that result."""
    ops = trace.table(Op)
    found = {}
    for name in distinct(ops["name"]).tolist():
        place = HOLDS_LOGARITHMS_OF_ZERO.get(trace.text(name))
        if place is not None:
            found.update(dict.fromkeys(ops["id"][ops["name"] == name].tolist(), place))
    return found


def _in_time(trace: Trace) -> list[Value]:
    values = trace.table(Value)
    return values.take(np.lexsort((values["id"], values["t"])))


def _birth(row: Value, place: Place, operands: list[Finiteness | None]) -> Birth | None:
    known = [operand for operand in operands if operand is not None]
    nan_before = any(operand.nan for operand in known)
    inf_before = any(operand.inf for operand in known)
    if row.nan and not nan_before:
        kind = "NaN"
    elif (row.posinf or row.neginf) and not inf_before and not nan_before:
        kind = "Inf"
    else:
        return None
    return Birth(
        value=row.id,
        kind=kind,
        place=place,
        op=row.op,
        node=row.node,
        index=row.index,
        tensor=row.tensor,
        task=row.task,
        step=row.step,
        seq=row.seq,
        t=row.t,
        count=row.count,
        nan=row.nan,
        posinf=row.posinf,
        neginf=row.neginf,
        bad=row.bad,
        from_inf=inf_before,
        unchecked=len(operands) - len(known),
    )


def nonfinite_nodes(trace: Trace, tasks: Collection[int] | None = None) -> dict[int, str]:
    """Nodes at which a NaN or an Inf was observed, as origin or not: "NaN", "Inf" or "NaN, Inf"."""
    values = trace.table(Value)
    chosen = not_finite(values)
    chosen &= values["node"] != NONE
    if tasks is not None:
        chosen &= np.isin(values["task"], list(tasks))
    seen: dict[int, set[str]] = defaultdict(set)
    for row in values.take(np.flatnonzero(chosen)):
        seen[row.node].update(["NaN"] if row.nan else [])
        seen[row.node].update(["Inf"] if row.posinf or row.neginf else [])
    return {node: ", ".join(sorted(kinds, reverse=True)) for node, kinds in seen.items()}
