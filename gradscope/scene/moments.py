"""A moment of a trace in a sentence: what the engine or the program did."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.names import NodeNames, node_names
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.lookups import member
from gradscope.analysis.program.acts import Acts, said_by
from gradscope.scene.cells import Cells, kind_in_words
from gradscope.scene.readable import duration, plural, shape
from gradscope.trace.schema import (
    ACTS,
    NONE,
    Accumulate,
    Accumulation,
    Act,
    ActFacts,
    BufferAdded,
    BufferMade,
    Callback,
    Capture,
    Decrement,
    Dependency,
    Error,
    GraphTask,
    HookBegin,
    HookEnd,
    HookKind,
    Mark,
    NodeBegin,
    NodeEnd,
    Op,
    Pop,
    Push,
    ReentrantEnter,
    ReentrantLeave,
    SavedReleased,
    SavedUnpacked,
    Skipped,
    Step,
    TaskBegin,
    TaskEnd,
    Tensor,
    Version,
    Wait,
    Wake,
)
from gradscope.trace.schema.declare import Row
from gradscope.trace.trace import Trace

HOW = {
    Accumulation.STOLEN: "moved without a copy",
    Accumulation.CLONED: "copied into a new tensor",
    Accumulation.IN_PLACE: "added in place to the existing one",
    Accumulation.OUT_OF_PLACE: "added to the existing one, into a new tensor",
}
MOST_FACTS = 4
"""Number of facts of an event of the program that are shown."""

_Say = Callable[["MomentWords", Any], str]
_SAY: dict[type[Row], _Say] = {}


def _of(*kinds: type[Row]) -> Callable[[_Say], _Say]:
    def declared(say: _Say) -> _Say:
        _SAY.update(dict.fromkeys(kinds, say))
        return say

    return declared


class MomentWords:
    """Describes the moments of one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.cells = Cells(trace)
        self._names: NodeNames = node_names(trace)

    def node(self, id: int) -> str:
        """The unique name of a node, or the name of its leaf."""
        return self._names.title(id)

    def short(self, tensor: int) -> str:
        """The name of a tensor, or its shape."""
        tensors = self.trace.table(Tensor)
        known = leaf(self.trace, tensor)
        if known is None:
            return f"tensor {tensor}"
        return (known.name if tensors.row(tensor).leaf else "") or shape(known.shape)

    def said(self, row: Row) -> str:
        """What happened, in a sentence without a full stop."""
        say = _SAY.get(type(row))
        if say is not None:
            return say(self, row)
        words = self.cells.words(row, leave_out=("seq", "t", "thread", "task", "stack"))
        told = ", ".join(f"{name} {text}" for name, text in words)
        return f"{type(row).TABLE.rpartition('.')[2]}: {told}"

    def line(self, row: Row) -> str:
        """The line of the program where it happened, as in "train.py:41"."""
        stack = getattr(row, "stack", NONE)
        if isinstance(row, TaskBegin):
            tasks = self.trace.table(GraphTask)
            stack = tasks.row(row.task).stack if tasks.has(row.task) else NONE
        return site_of(self.trace, stack).place


@_of(Dependency)
def _counted(it: MomentWords, row: Dependency) -> str:
    return f"{it.node(row.node)} waits for {plural(row.count, 'gradient')} (dependencies counted)"


@_of(TaskBegin)
def _backward_begins(it: MomentWords, row: TaskBegin) -> str:
    return f"{it.cells.backward(row.task)} begins"


@_of(TaskEnd)
def _backward_ends(it: MomentWords, row: TaskEnd) -> str:
    return f"{it.cells.backward(row.task)} {'fails' if row.failed else 'ends'}"


@_of(Push)
def _pushed(it: MomentWords, row: Push) -> str:
    return (
        f"{it.node(row.node)} is ready: pushed to queue {row.queue}, which now holds {row.length}"
    )


@_of(Pop)
def _popped(it: MomentWords, row: Pop) -> str:
    left = f"{row.length} left" if row.length else "now empty"
    return f"{it.node(row.node)} is taken from queue {row.queue}, {left}"


@_of(NodeBegin)
def _begins(it: MomentWords, row: NodeBegin) -> str:
    return f"{it.node(row.node)} begins"


@_of(NodeEnd)
def _ends(it: MomentWords, row: NodeEnd) -> str:
    return f"{it.node(row.node)} {'raises' if row.failed else 'ends'}"


@_of(Skipped)
def _skipped(it: MomentWords, row: Skipped) -> str:
    return f"{it.node(row.node)} is skipped: not needed for inputs="


@_of(Decrement)
def _arrived(it: MomentWords, row: Decrement) -> str:
    left = f"{row.remaining} still missing" if row.remaining else "all have arrived"
    return f"{it.node(row.node)} receives gradient {row.index} of {it.node(row.source)}: {left}"


@_of(BufferMade)
def _kept(it: MomentWords, row: BufferMade) -> str:
    verb = "receives None" if row.undefined else "buffers the first gradient"
    return f"{it.node(row.node)} {verb} for input {row.input_nr}"


@_of(BufferAdded)
def _added(it: MomentWords, row: BufferAdded) -> str:
    if row.undefined:
        return (
            f"{it.node(row.node)} receives None for input {row.input_nr}: its buffer is unchanged"
        )
    how = "in place" if row.in_place else "into a new tensor"
    return f"{it.node(row.node)} adds another gradient for input {row.input_nr}, {how}"


@_of(HookBegin)
def _hook(it: MomentWords, row: HookBegin) -> str:
    of = it.node(row.node) if row.node != NONE else "the program"
    return f"hook {row.name or '?'} ({kind_in_words(HookKind, row.hook)}) of {of} is called"


@_of(HookEnd)
def _hook_ends(it: MomentWords, row: HookEnd) -> str:
    of = it.node(row.node) if row.node != NONE else "the program"
    what = "returns another gradient" if row.replaced else "returns"
    return f"a hook ({kind_in_words(HookKind, row.hook)}) of {of} {what}"


@_of(Capture)
def _captured(it: MomentWords, row: Capture) -> str:
    return f"the gradient for input {row.input_nr} of {it.node(row.node)} is captured for inputs="


@_of(Accumulate)
def _accumulated(it: MomentWords, row: Accumulate) -> str:
    how = member(Accumulation, row.how)
    done = f"arrived {row.how}" if how is None else HOW[how]
    return f"a gradient arrives in .grad of {it.short(row.tensor)}: {done}"


@_of(SavedUnpacked)
def _unpacked(it: MomentWords, row: SavedUnpacked) -> str:
    return f"the program reads the saved values of {it.node(row.node)}"


@_of(SavedReleased)
def _released(it: MomentWords, row: SavedReleased) -> str:
    return f"{it.node(row.node)} releases its saved values"


@_of(Callback)
def _callback(_: MomentWords, row: Callback) -> str:
    return f"callback {row.name or '?'}, queued for the end of the backward, is called"


@_of(ReentrantEnter)
def _enters(it: MomentWords, row: ReentrantEnter) -> str:
    inside = f" inside {it.node(row.node)}" if row.node != NONE else ""
    return f"a nested backward begins{inside}, at depth {row.depth}"


@_of(ReentrantLeave)
def _leaves(_: MomentWords, row: ReentrantLeave) -> str:
    return f"the nested backward at depth {row.depth} ends"


@_of(Wait)
def _waits(it: MomentWords, row: Wait) -> str:
    return f"{it.cells.thread(row.thread)} sleeps: queue {row.queue} is empty"


@_of(Wake)
def _wakes(it: MomentWords, row: Wake) -> str:
    return f"{it.cells.thread(row.thread)} wakes up for queue {row.queue}"


@_of(Error)
def _raised(it: MomentWords, row: Error) -> str:
    at = f" in {it.node(row.node)}" if row.node != NONE else ""
    return f"{row.type or 'an error'}{at}: {row.message}"


@_of(Op)
def _called(it: MomentWords, row: Op) -> str:
    given = ", ".join(map(it.short, row.inputs[:3])) + ", …" * (len(row.inputs) > 3)
    made = f" returns {it.short(row.outputs[0])}" if row.outputs else ""
    return f"{row.name}({given}){made}"


@_of(Version)
def _written(it: MomentWords, row: Version) -> str:
    versions = "" if NONE in (row.old, row.new) else f": version {row.old} becomes {row.new}"
    return f"{it.short(row.tensor)} (tensor {row.tensor}) is written in place{versions}"


@_of(Act)
def _did(it: MomentWords, row: Act) -> str:
    facts = it.trace.once(Acts).by_id[row.id].facts if row.kind in ACTS else ActFacts()
    known = islice(said_by(facts), MOST_FACTS)
    what = ", ".join(f"{name} {_cell(value)}" for name, value in known)
    tensors = f" of {plural(len(row.tensors), 'tensor')}" if row.tensors else ""
    return f"the program: {row.kind.replace('_', ' ')}{tensors}" + f" ({what})" * bool(what)


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_cell, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@_of(Mark)
def _marked(_: MomentWords, row: Mark) -> str:
    return f"mark {row.name}" + f": {row.note}" * bool(row.note)


@_of(Step)
def _step(_: MomentWords, row: Step) -> str:
    took = "" if row.end == NONE else f", which takes {duration(row.end - row.begin)}"
    return f"step {row.number} begins{took}"
