"""What a watcher of PyTorch reports, and the listener that takes it. See Note [A fault of ours]."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gradscope.program_listener import ProgramListener

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.machine_code.seldom import Seldom
    from gradscope.watch.native.creation import RecordMaker, RecordSources

Ints = NDArray[np.int64]


class PythonNodeRecord(list[str]):
    """What a node keeps of its making, where anomaly mode keeps the lines of its traceback.

    PyTorch joins what it finds there when a backward fails, and compilers copy it: it is a list,
    of no lines.
    """

    __slots__ = (
        "context", "first", "many", "number", "recording", "rest", "site", "t", "topological",
    )  # fmt: skip

    def __init__(self, recording: object, number: int, context: int, site: int, t: int) -> None:
        self.recording = recording  # whose number it is
        self.number = number
        self.context = context  # where its thread was
        self.site = site
        self.t = t
        # Known when a walk has met it: how long the longest path from it is (-1: none has yet), and
        # the tensors whose gradients it takes: how many, the first's number, and the others'.
        self.topological = -1
        self.many = self.first = 0
        self.rest: tuple[int, ...] = ()


class TracebackWithRecord(list[str]):
    """A node's traceback, which the program asked for, and what we keep beside it."""

    __slots__ = ("record",)

    def __init__(self, lines: Sequence[str] = (), record: PythonNodeRecord | None = None) -> None:
        super().__init__(lines)
        self.record = record


class NodeRecord(Protocol):
    """What a node keeps of its making: a `PythonNodeRecord`, or a `NativeNodeRecord`."""

    @property
    def number(self) -> int: ...
    @property
    def t(self) -> int: ...
    @property
    def topological(self) -> int: ...
    @property
    def many(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def rest(self) -> Sequence[int]: ...


class FoundSavedValue(NamedTuple):
    """One value that a node keeps for its backward."""

    slot: str
    tensor: Any  # while this is handed over; None: a hook packed it, and what it was is not known
    output_of: NodeRecord | None  # by the node that has it as an output
    output_nr: int


_OWN_RESULT = re.compile(r"(?:result|output)(\d*)")
"""Slots that hold what the node's own call returned, and which of it."""


def own_result(slot: str) -> int | None:
    """Which of the results of its own call a node keeps in this slot; None: something else."""
    found = _OWN_RESULT.fullmatch(slot)
    return None if found is None else int(found[1] or 0)


class SavedByNode(NamedTuple):
    """What a node keeps for its backward."""

    record: NodeRecord
    saved: Sequence[FoundSavedValue]
    shape: Callable[[int], tuple[int, ...]]  # of what it takes as one of its inputs


class FoundNode(NamedTuple):
    """A node that a backward reaches and that was not known before."""

    record: PythonNodeRecord
    name: str
    sequence_nr: int
    topological_nr: int
    edges: Sequence[tuple[NodeRecord | None, int]]  # (node, input nr) for each gradient it returns
    inputs: Sequence[tuple[Any, Any, Any]]  # shape, dtype, device of each gradient it takes
    saved: Sequence[FoundSavedValue]
    leaf: Any  # of an AccumulateGrad
    made_before: bool  # the watcher came later than the node

    def all_saved(self) -> SavedByNode:
        """What it keeps."""
        return SavedByNode(self.record, self.saved, lambda nr: self.inputs[nr][0])


class BackwardCall(NamedTuple):
    """What a call of the engine was asked."""

    roots: tuple[tuple[int, int], ...]  # numbers of nodes, and which of their inputs
    inputs: tuple[tuple[int, int], ...]
    keep_graph: bool
    create_graph: bool
    accumulate_grad: bool
    above: int = 1  # how long the longest path is from a node above the roots
    sequence_nr: int = 0  # of such a node, which PyTorch makes if there are several


class RunColumns(NamedTuple):
    """Runs of nodes of a backward, in order, on the thread that called it."""

    begin: Ints
    end: Ints
    sequence: Ints  # what the node said of itself; -1: an AccumulateGrad
    numbers: Ints  # of the runs, if what they took was looked at; 0: of none


NO_RUNS = np.zeros((len(RunColumns._fields), 0), np.int64)


class BackwardRuns:
    """A backward of one thread, and later what ran in it and in no other.

    `many`: so many runs, about.
    """

    __slots__ = ("_read", "columns", "inside", "last", "many", "part", "since", "thread")

    def __init__(self, read: Callable[[], None], since: int = 0, thread: int = 0) -> None:
        self._read = read
        self.since = self.last = since  # places of its first row, and behind its last
        self.inside: tuple[tuple[int, int], ...] = ()  # those of others that began and ended in it
        self.thread = thread
        self.many = 0
        self.columns: Ints | None = None  # of several backwards; None: not all was seen
        self.part = slice(0, 0)  # what is of this one

    def runs(self) -> RunColumns | None:
        """What ran in it and in no other; None: that was not seen, or not all of it."""
        self._read()
        return None if self.columns is None else RunColumns(*self.columns[:, self.part])

    def is_seen(self) -> bool:
        """Whether that is known."""
        if self.columns is None:
            self._read()
        return self.columns is not None

    def after(self, sequence: int) -> None:
        """All of it came behind the run of another node, which was over at once."""
        if self.columns is not None:
            own = self.columns[:, self.part]
            before = np.array([[own[0, 0] - 1], [own[0, 0] - 1], [sequence], [0]])
            self.columns = np.concatenate([before, own], axis=1)
            self.part = slice(0, self.columns.shape[1])


def ranges(first: Ints, many: Ints) -> Ints:
    """So many places from each of these on, one after the other."""
    begin = np.repeat(first - (np.cumsum(many) - many), many)
    return begin + np.arange(len(begin))


def together(all_ran: Sequence[BackwardRuns]) -> tuple[RunColumns, Ints]:
    """What ran in all these, of which all was seen, and how much of it in each."""
    parts = [NO_RUNS]
    for _, group in groupby(all_ran, lambda each: id(each.columns)):
        one, *others = group
        columns = one.columns
        if columns is not None:
            own = [one.part, *[each.part for each in others]]
            first = np.array([part.start for part in own])
            many = np.array([part.stop for part in own]) - first
            parts.append(columns[:, ranges(first, many)])
    many = np.array([each.part.stop - each.part.start for each in all_ran], np.int64)
    return RunColumns(*np.concatenate(parts, axis=1)), many


class ArgumentReader(Protocol):
    """Who reads what calls were given besides tensors."""

    @property
    def seldom(self) -> Seldom:
        """When to."""
        ...

    def has(self, kind: type) -> bool:
        """Whether nodes of this class may keep any."""
        ...

    def look(self, node: Any, number: int) -> None: ...


class Listener(ProgramListener, Protocol):
    """Receives the reports of a watcher of PyTorch. Numbers are those returned by `made`."""

    @property
    def arguments(self) -> ArgumentReader: ...

    @property
    def recording(self) -> object:
        """What all that it has made name as theirs; nodes may have been made for others."""
        ...

    def making(self) -> RecordSources:
        """What native code has to know of threads and lines to do without `made`."""
        ...

    def takes_records_of(self, maker: RecordMaker) -> None:
        """It does without from here on: lines are told to that, which gives out numbers."""
        ...

    def new_record(self, frame: FrameType | None) -> PythonNodeRecord:
        """A node is being made on this frame; None: it was, some time ago."""
        ...

    def site(self, frame: FrameType | None) -> int: ...
    def tensor(self, tensor: Any) -> int:
        """The number of a leaf."""
        ...

    def found(self, nodes: list[FoundNode]) -> None: ...
    def found_saved(self, nodes: list[SavedByNode], walk_began: int) -> None:
        """What nodes have saved that a native walk has met and Python has to say; when it began."""
        ...

    def looks_since(self) -> int:
        """A backward is about to begin: 0 if it is not to be looked at, else what time it is."""
        ...

    def left_out(self, *, creates: bool) -> None:
        """One is over that was not to be looked at; whether it was to make a graph."""
        ...

    def backward_begins(self, asked: BackwardCall, frame: FrameType | None, since: int) -> Any:
        """It begins, and has been looked at since then."""
        ...

    def backward_ends(
        self, task: Any, error: BaseException | None, ran: BackwardRuns | None
    ) -> None: ...

    def hook_begins(
        self, kind: str, node: int, index: int, hook: Any, site: int, attended: Any = None
    ) -> Any:
        """A hook is called: on a node, 0 if it is not known; of a module, or an optimizer."""
        ...

    def hook_ends(self, token: Any, *, replaced: bool) -> None: ...

    def called_back(self, callback: Any) -> None:
        """What a program wants done when a backward is over."""
        ...

    def hook_given(self, token: Any, grad: Any, nr: int) -> None:
        """The gradient that a hook on a tensor is about to be told of."""
        ...

    def hook_looked(self, token: Any, leaf: Any, result: Any, nr: int) -> None:
        """The leaf whose gradient a hook was told of, after it; or what the hook returned."""
        ...

    def seeded(self, task: Any, asked: BackwardCall, grads: Sequence[Any]) -> None: ...
    def handed_over(self, task: Any, grads: Sequence[Any]) -> None:
        """The gradients that a backward has returned to who asked for them."""
        ...
