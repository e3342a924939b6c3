"""The reports of a watcher of PyTorch, and their listener. See Note [A fault of ours]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gradscope.program_listener import ProgramListener

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.machine_code.seldom import Seldom
    from gradscope.watch.called.compiling import CompilerEvent
    from gradscope.watch.native.creation import RecordMaker, RecordSources

Ints = NDArray[np.int64]


class PythonNodeRecord(list[str]):
    """The record of a node's creation, stored where anomaly mode stores the traceback.

    PyTorch joins its items into a text if a backward fails, and compilers copy it: so it is a list,
    an empty one.
    """

    __slots__ = (
        "__weakref__", "context", "first", "hooked", "many", "number", "packed", "recording",
        "rest", "site", "t", "topological",
    )  # fmt: skip

    def __init__(self, recording: object, number: int, context: int, site: int, t: int) -> None:
        self.recording = recording  # the recording that assigned the number
        self.number = number
        self.context = context  # the context of its thread
        self.site = site
        self.t = t
        # Known after a traversal: the length of the longest path from the node (-1: not known), and
        # the tensors whose gradients it receives: their count, the first number, and the other
        # numbers.
        self.topological = -1
        self.many = self.first = 0
        self.rest: tuple[int, ...] = ()
        self.packed = False  # whether a hook may have packed what the node saves
        self.hooked: Any = None  # what our hooks on the node know, if there are any


class TracebackWithRecord(list[str]):
    """A traceback that the program requested, with our record attached."""

    __slots__ = ("record",)

    def __init__(self, lines: Sequence[str] = (), record: PythonNodeRecord | None = None) -> None:
        super().__init__(lines)
        self.record = record


class RankGroup(NamedTuple):
    """A process group of PyTorch."""

    name: str  # the same on all of its ranks
    described: str
    members: tuple[int, ...]


class Exchange(NamedTuple):
    """What a rank passes in a collective."""

    group: RankGroup | None  # None: this rank is not in it
    shape: Sequence[int]
    dtype: Any  # None: it passes no tensor
    frame: FrameType  # that called it
    name: str  # "all_reduce"
    tensor: Any = None  # that this rank passes; of several, the first
    caller: str = ""  # "FSDP"; "": the program
    unit: Sequence[Any] = ()  # the parameters for which FSDP calls
    nodes: Sequence[tuple[int, str]] = ()  # that made what is passed: number, and what cut it off
    reduces: str = ""  # "sum"
    makes: tuple[int, ...] = ()  # the ranks of the group that this call makes


class NodeRecord(Protocol):
    """The record of a node's creation: a `PythonNodeRecord` or a `NativeNodeRecord`."""

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
    """A value that a node saves for its backward."""

    slot: str
    tensor: Any  # available during the report; None: a hook packed it
    output_of: NodeRecord | None  # the node that has it as an output
    output_nr: int
    own: int | None = None  # the index of the node's own result that it is
    argument: bool = True  # an argument of the node's call, if it is not a result


class SavedByNode(NamedTuple):
    """The values that a node saves for its backward."""

    record: NodeRecord
    saved: Sequence[FoundSavedValue]
    shape: Callable[[int], tuple[int, ...]]  # the shape of one of its inputs


class FoundNode(NamedTuple):
    """A node that a backward reached and that was not known before."""

    record: PythonNodeRecord
    name: str
    sequence_nr: int
    topological_nr: int
    edges: Sequence[tuple[NodeRecord | None, int]]  # (node, input nr) for each gradient it returns
    inputs: Sequence[tuple[Any, Any, Any]]  # shape, dtype, device of each gradient that it receives
    saved: Sequence[FoundSavedValue]
    leaf: Any  # of an AccumulateGrad
    made_before: bool  # created before the watcher started

    def all_saved(self) -> SavedByNode:
        """All its saved values."""
        return SavedByNode(self.record, self.saved, lambda nr: self.inputs[nr][0])


class BackwardCall(NamedTuple):
    """The arguments of a call of the engine."""

    roots: tuple[tuple[int, int], ...]  # numbers of nodes, and the indices of their inputs
    inputs: tuple[tuple[int, int], ...]
    keep_graph: bool
    create_graph: bool
    accumulate_grad: bool
    above: int = 1  # length of the longest path from a node above the roots
    sequence_nr: int = 0  # of the node that PyTorch creates if there are several roots


class RunColumns(NamedTuple):
    """Runs of nodes of a backward, in the order in which they began."""

    begin: Ints
    end: Ints
    sequence: Ints  # the sequence number of the node; -1: an AccumulateGrad
    numbers: Ints  # of the runs, if their gradients were measured; otherwise 0
    thread: Ints  # `threading.get_ident()` of the thread that ran the node


class AddedGradient(NamedTuple):
    """An addition of a gradient after a run, as hooks show it."""

    run: int  # index of the run that returned the gradient
    nr: int  # of the gradient in what it returned
    kind: int  # the call that PyTorch added it with: an index of `call_rows.GRADIENTS`
    look: int  # the number under which operands and sum were measured; 0: they were not


class SeenGradients(NamedTuple):
    """How gradients were accumulated and added in a backward, as hooks show it."""

    took: Sequence[tuple[int, int, int]]
    """For runs of leaves: index of the run, the call as above, number of the look."""
    added: Sequence[AddedGradient]  # sorted


NO_RUNS = np.zeros((len(RunColumns._fields), 0), np.int64)


class BackwardRuns:
    """A backward, and its runs, without those of nested backwards.

    `many`: approximate number of runs.
    """

    __slots__ = (
        "_read", "begun", "columns", "gradients", "inside", "last", "many", "outermost", "part",
        "since", "thread",
    )  # fmt: skip

    def __init__(
        self, read: Callable[[], None] | None = None, since: int = 0, thread: int = 0
    ) -> None:
        self._read = read  # assigns the columns; None: they are assigned, or will never be
        self.since = self.last = since  # place of its first row, and the place after its last
        self.inside: tuple[tuple[int, int], ...] = ()  # the ranges of nested backwards
        self.thread = thread  # `threading.get_ident()` of the caller
        self.outermost = True  # not called by a node or hook of another backward
        self.many = 0
        self.begun = 0  # time; 0: not known
        self.columns: Ints | None = None  # shared by several backwards; None: not all were observed
        self.part = slice(0, 0)  # the part of this backward
        self.gradients: SeenGradients | None = None  # None: calls show it, or nothing does

    def runs(self) -> RunColumns | None:
        """Its runs, without those of nested backwards; None: not all were observed."""
        if self._read is not None:
            self._read()
        return None if self.columns is None else RunColumns(*self.columns[:, self.part])

    def is_seen(self) -> bool:
        """Whether all its runs were observed."""
        if self.columns is None and self._read is not None:
            self._read()
        return self.columns is not None

    def after(self, sequence: int) -> None:
        """Insert the run of another node before all others, with no duration."""
        if self.columns is not None:
            before = np.array([[self.begun], [self.begun], [sequence], [0], [self.thread]])
            self.columns = np.concatenate([before, self.columns[:, self.part]], axis=1)
            self.part = slice(0, self.columns.shape[1])


def ranges(first: Ints, many: Ints) -> Ints:
    """This many consecutive indices from each first one, concatenated."""
    begin = np.repeat(first - (np.cumsum(many) - many), many)
    return begin + np.arange(len(begin))


def together(all_ran: Sequence[BackwardRuns]) -> tuple[RunColumns, Ints]:
    """The runs of these backwards, all of which were observed, and the number of runs of each."""
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
    """Reads arguments of calls that are not tensors."""

    @property
    def seldom(self) -> Seldom:
        """Decides when to read."""
        ...

    def has(self, kind: type) -> bool:
        """Whether nodes of this class may store any."""
        ...

    def look(self, node: Any, number: int) -> None: ...


class SharedListener(Protocol):
    """Receives what ranks of a program share."""

    def exchanges(self, token: Any, passed: Exchange) -> None:
        """A collective, whose span has this token, began."""
        ...

    def observes(self, works: Any) -> None:
        """Works are observed from now on."""
        ...

    def carries(self, carried: Any) -> None:
        """What collectives have written is followed from now on."""
        ...

    def marked(self, token: Any, mark: int) -> None:
        """What the collective with this token has written has this mark."""
        ...

    def handled(self, token: Any, did: str, frame: FrameType | None) -> None:
        """The collective with this token returned a handle, or a method of that was called."""
        ...

    def wraps(self, frame: FrameType | None) -> None:
        """A model is being replicated, by this frame."""
        ...

    def wrapped(self) -> None:
        """This has ended."""
        ...

    def replicated(
        self, group: RankGroup, parameters: Sequence[Any], buckets: Any, frame: FrameType | None
    ) -> None:
        """Parameters that are kept equal on all ranks of a group, from this frame on."""
        ...


class Listener(ProgramListener, Protocol):
    """Receives the reports of a watcher of PyTorch. Numbers of nodes are those of their records."""

    takes_given: bool  # whether `module_given` is called

    @property
    def arguments(self) -> ArgumentReader: ...

    @property
    def recording(self) -> object:
        """The recording that created its records; other nodes may belong to others."""
        ...

    @property
    def statistics(self) -> Callable[[Any], Any]:
        """The function that returns the statistics of an array: `public.looks.Measured`."""
        ...

    def ends_at(self, tensors: Sequence[Any]) -> None:
        """The tensors that a backward begins from, after their graph was traversed."""
        ...

    def making(self) -> RecordSources:
        """Data that lets native code record threads and lines without calling `new_record`."""
        ...

    def takes_records_of(self, maker: RecordMaker) -> None:
        """From now on, this maker fills records and assigns numbers; new lines are passed to it."""
        ...

    def new_record(self, frame: FrameType | None) -> PythonNodeRecord:
        """A node is being created on this frame; None: it was created before."""
        ...

    def site(self, frame: FrameType | None) -> int: ...
    def tensor(self, tensor: Any) -> int:
        """The number of a leaf."""
        ...

    def found(self, nodes: list[FoundNode]) -> None: ...
    def found_saved(self, nodes: list[SavedByNode], walk_began: int) -> None:
        """Saved values found natively that Python has to read; the start of that traversal."""
        ...

    def looks_since(self) -> int:
        """Called before a backward: the current time, if it is recorded.

        0: it is not recorded. -1: it is not, and its end does not matter.
        """
        ...

    def left_out(self, *, creates: bool) -> None:
        """An unrecorded backward ended; `creates`: whether it created a graph."""
        ...

    def backward_begins(self, asked: BackwardCall, frame: FrameType | None, since: int) -> Any:
        """A backward begins, whose graph was traversed since `since`."""
        ...

    def backward_ends(
        self, task: Any, error: BaseException | None, ran: BackwardRuns | None
    ) -> None: ...

    def hook_begins(
        self, kind: str, node: int, index: int, hook: Any, site: int, attended: Any = None
    ) -> Any:
        """A hook is called: on a node (0: not known), a module or an optimizer."""
        ...

    def hook_ends(self, token: Any, *, replaced: bool) -> None: ...

    def called_back(self, callback: Any) -> None:
        """A callback that the program queued for the end of a backward is called."""
        ...

    def hook_given(self, token: Any, grad: Any, nr: int) -> None:
        """The gradient that a hook on a tensor will receive."""
        ...

    def hook_looked(self, token: Any, leaf: Any, result: Any, nr: int) -> None:
        """After a hook: the leaf whose gradient it received, or its result."""
        ...

    @property
    def shared(self) -> SharedListener:
        """Receives what ranks share."""
        ...

    def seeded(self, task: Any, asked: BackwardCall, grads: Sequence[Any]) -> None: ...
    def compiler_told(self, event: CompilerEvent, frame: FrameType) -> None:
        """A compiler reported something while it compiled a function called by this frame."""
        ...

    def handed_over(self, task: Any, grads: Sequence[Any]) -> None:
        """The gradients that a backward has returned to its caller."""
        ...
