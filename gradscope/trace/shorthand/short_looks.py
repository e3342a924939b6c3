"""Expands statistics of tensors that were measured from outside the engine to rows of `value`.

# Note [Looks]
Observing an engine from outside shows what the run of a node receives, and what is added to
buffers, but not for which node: that follows from the order of runs if it is the predicted one
(Note [Inferred events]). What a node returned is what arrived at its destination: what the next
node received, unless a hook replaced it; what a hook received, or what the program got from a
backward; or an operand of a sum. A gradient that was moved into a leaf unchanged is what its node
received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradscope.trace.schema import events
from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.events import Accumulation, HookKind
from gradscope.trace.schema.tables import Place, Value
from gradscope.trace.shorthand.replay import ReplayStep, Sent
from gradscope.trace.shorthand.run_events import MODULE
from gradscope.trace.shorthand.seen import SeenTask
from gradscope.trace.shorthand.tables import ARRIVED, OPERAND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gradscope.trace.shorthand.short_columns import Ints, ShortColumns
    from gradscope.trace.table import Block

SAME = (Accumulation.STOLEN, Accumulation.CLONED)
Slot = tuple[int, int]  # a node, and which of its inputs


class AsForetold(NamedTuple):
    """A task whose runs were in the predicted order."""

    steps: Sequence[ReplayStep]  # of nodes that ran
    seen: SeenTask
    leaves: Mapping[int, int]

    def runs(self) -> Iterator[tuple[int, ReplayStep, int]]:
        """A run: its index, its node, and when it ended."""
        for run, (step, (_, ended, _)) in enumerate(zip(self.steps, self.seen.rows, strict=False)):
            yield run, step, ended


class LookRow(NamedTuple):
    """One value, with the look (measurement) it is taken from."""

    look: int
    place: int
    node: int
    nr: int
    tensor: int
    t: int


class _Looks:
    """The looks (measurements) of one task, by what is known when they are recorded."""

    def __init__(self) -> None:
        self.taken: dict[tuple[int, int], int] = {}  # run, index
        self.arrived: dict[Slot, int] = {}
        self.operands: dict[tuple[int, int, int], int] = {}  # run, sum, which
        self.sums: dict[tuple[int, int], int] = {}  # run, sum; NONE: what the leaf then contains


def written(
    looks: ShortColumns,
    told: Mapping[int, Callable[[], AsForetold]],
    short: Mapping[str, Sequence[Block]],
    make: type[Block],
) -> Block | None:
    """The values that these looks stand for."""
    if not looks.rows:
        return None
    names = ("run", "place", "task", "node", "index", "tensor", "t", "sum")
    of = {name: looks[name].tolist() for name in names}
    rows: list[LookRow] = []
    tasks: dict[int, _Looks] = {}
    for look, (run, place, task, node, index, tensor, t, sum_) in enumerate(
        zip(*of.values(), strict=True)
    ):
        if run == NONE and place != ARRIVED:
            rows.append(LookRow(look, place, node, index, tensor, t))
            continue
        own = tasks.setdefault(task, _Looks())
        if place == ARRIVED:
            own.arrived.setdefault((node, index), look)
        elif place == Place.NODE_INPUT:
            own.taken[run, index] = look
        elif place == OPERAND:
            own.operands[run, sum_, index] = look
        else:
            own.sums[run, sum_] = look
    replaced = _replaced(short)
    for task, own in tasks.items():
        if task in told:
            rows += _of_task(told[task](), own, of["t"], replaced.get(task, (set(), set())))
    return _block(looks, rows, make)


def _of_task(
    told: AsForetold, looks: _Looks, t: Sequence[int], replaced: tuple[set[int], set[int]]
) -> Iterator[LookRow]:
    for (run, index), look in looks.taken.items():
        if 0 <= run < len(told.steps):
            yield LookRow(look, Place.NODE_INPUT, told.steps[run].node, index, NONE, t[look])
    yield from _in_leaves(told, looks)
    yield from _returned(told, looks, t, replaced)


def _in_leaves(told: AsForetold, looks: _Looks) -> Iterator[LookRow]:
    """The contents of `.grad` after the run of a leaf's node."""
    for run, step, ended in told.runs():
        leaf = told.leaves.get(step.node)
        if leaf is None:
            continue
        look = looks.sums.get((run, NONE))
        if look is None and told.seen.took.get(run) in SAME:
            look = looks.taken.get((run, 0))
        if look is not None:
            at = min(ended, told.seen.after.get(step.node, ended + 1) - 1)
            yield LookRow(look, Place.GRAD, step.node, 0, leaf, at)


def _returned(
    told: AsForetold, looks: _Looks, t: Sequence[int], replaced: tuple[set[int], set[int]]
) -> Iterator[LookRow]:
    """What nodes returned, and the sums of that."""
    run_of = {step.node: run for run, step, _ in told.runs()}
    first: dict[Slot, tuple[int, int, int]] = {}  # its source: node, index, end of its run
    several: set[Slot] = set()
    by_target, by_source = replaced
    for run, step, ended in told.runs():
        added = [sent for sent in step.sent if sent.wanted and sent.added]
        before = len(told.seen.sums.get(run, ())) - len(added)  # hooks may add
        for place, sent in enumerate(added):
            if told.seen.sums_known:
                yield from _added(looks, t, (run, before + place), step, sent, first, several)
            several.add((sent.node, sent.nr))
        for sent in step.sent:
            if sent.wanted and not sent.added:
                first[sent.node, sent.nr] = step.node, sent.index, ended
    for slot, (node, index, ended) in first.items():
        if slot in several or node in by_source:
            continue
        look = looks.arrived.get(slot)
        if look is None and slot[0] not in by_target and slot[0] in run_of:
            look = looks.taken.get((run_of[slot[0]], slot[1]))
        if look is not None:
            yield LookRow(look, Place.NODE_OUTPUT, node, index, NONE, ended)


def _added(
    looks: _Looks,
    t: Sequence[int],
    at: tuple[int, int],
    step: ReplayStep,
    sent: Sent,
    first: Mapping[Slot, tuple[int, int, int]],
    several: set[Slot],
) -> Iterator[LookRow]:
    """The additions at one input: operands and results."""
    slot = sent.node, sent.nr
    kept, look, sum_ = (
        looks.operands.get((*at, 0)), looks.operands.get((*at, 1)), looks.sums.get(at),
    )  # fmt: skip
    if kept is not None and slot in first and slot not in several:
        node, index, ended = first[slot]
        yield LookRow(kept, Place.NODE_OUTPUT, node, index, NONE, ended)
    if look is not None:
        yield LookRow(look, Place.NODE_OUTPUT, step.node, sent.index, NONE, t[look])
    if sum_ is not None:
        yield LookRow(sum_, Place.BUFFER, sent.node, sent.nr, NONE, t[sum_])


def _replaced(short: Mapping[str, Sequence[Block]]) -> dict[int, tuple[set[int], set[int]]]:
    """By task: nodes before and after whose runs hooks replaced a gradient."""
    found: dict[int, tuple[set[int], set[int]]] = {}
    for block in short.get("short.event", ()):
        columns = [np.asarray(block.data[name]) for name in ("code", "task", "node", "a", "c")]
        code, *_, what = columns
        ends = np.flatnonzero((code == events.HookEnd.CODE) & (what != 0))
        for _, task, node, kind, _ in zip(*(c[ends].tolist() for c in columns), strict=True):
            after = kind % MODULE == HookKind.POST
            found.setdefault(task, (set(), set()))[after].add(node)
    return found


def floats_of(bits: Ints, wide: Ints) -> NDArray[np.float64]:
    """Floats from their bits: of 64-bit floats where `wide` is not 0, else of 32-bit floats."""
    with np.errstate(invalid="ignore"):  # half of a double may be a signaling NaN
        single = bits.astype(np.int32).view(np.float32).astype(np.float64)
    return np.where(wide != 0, bits.view(np.float64), single)


def _block(looks: ShortColumns, rows: Sequence[LookRow], make: type[Block]) -> Block | None:
    if not rows:
        return None
    look, place, node, index, tensor, t = np.array(rows, np.int64).T.copy()
    data: dict[str, Any] = {
        "id": np.arange(len(rows)), "place": place, "node": node, "index": index,
        "tensor": tensor, "t": t, "seq": np.full(len(rows), NONE),
    }  # fmt: skip
    for name in ("op", "task", "step", "count", "nan", "posinf", "neginf", "zero"):
        data[name] = looks[name][look]
    for name in ("min", "max", "mean", "rms"):
        data[name] = floats_of(looks[name], looks["wide"])[look]
    finite = data["count"] - data["nan"] - data["posinf"] - data["neginf"]
    with np.errstate(over="ignore"):  # may overflow for finite values
        data["norm"] = data["rms"] * np.sqrt(np.maximum(finite, 0))
    data["bad"] = looks.ragged("bad").take(look)
    return make(Value.TABLE, len(rows), data)
