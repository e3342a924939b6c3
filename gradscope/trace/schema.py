"""Which tables and events a trace has, and what each of their columns means.

A table is a frozen dataclass; an annotation says how its column is stored. Everything else (codec,
docs, spec, property tests) reads these declarations, so a new column or event kind is declared here
and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cache
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

VERSION = 1
"""The version this gradscope writes. See HISTORY for what each one changed."""

HISTORY = {1: "first version"}

NONE = -1
"""In a column of ids: there is none."""


@dataclass(frozen=True, slots=True)
class Ref:
    """An id, or a list of ids, of rows in another table."""

    table: str


@dataclass(frozen=True, slots=True)
class Time:
    """Nanoseconds since `meta.clock_base`, on one monotonic clock."""


@dataclass(frozen=True, slots=True)
class Interned:
    """Text, stored as an id of the `string` table."""


Ns = Annotated[int, Time()]
Text = Annotated[str, Interned()]
StringId = Annotated[int, Ref("string")]
FrameId = Annotated[int, Ref("frame")]
StackId = Annotated[int, Ref("stack")]
ModuleId = Annotated[int, Ref("module")]
ThreadId = Annotated[int, Ref("thread")]
DeviceId = Annotated[int, Ref("device")]
StepId = Annotated[int, Ref("step")]
TensorId = Annotated[int, Ref("tensor")]
TensorIds = Annotated[tuple[int, ...], Ref("tensor")]
StorageId = Annotated[int, Ref("storage")]
OpId = Annotated[int, Ref("op")]
NodeId = Annotated[int, Ref("node")]
NodeIds = Annotated[tuple[int, ...], Ref("node")]
SavedId = Annotated[int, Ref("saved")]
TaskId = Annotated[int, Ref("graph_task")]
SpanId = Annotated[int, Ref("span")]
Ints = tuple[int, ...]


class Why(IntEnum):
    """Why a forward call made no node."""

    MADE = 0
    NO_GRAD = 1
    NO_INPUT_REQUIRES_GRAD = 2
    NOT_DIFFERENTIABLE = 3
    DETACHED = 4
    INFERENCE = 5


class HookKind(IntEnum):
    """Which list a hook was registered on."""

    TENSOR = 0
    PRE = 1
    POST = 2
    RETAINS_GRAD = 3
    CAPTURE = 4
    POST_ACCUMULATE = 5
    PACK = 6
    UNPACK = 7
    MODULE_FORWARD_PRE = 8
    MODULE_FORWARD = 9
    MODULE_BACKWARD_PRE = 10
    MODULE_BACKWARD = 11


class Accumulation(IntEnum):
    """What AccumulateGrad did with an arriving gradient."""

    STOLEN = 0
    CLONED = 1
    IN_PLACE = 2
    OUT_OF_PLACE = 3


class Place(IntEnum):
    """The point at which a value was looked at."""

    OP_OUTPUT = 0
    NODE_INPUT = 1
    NODE_OUTPUT = 2
    BUFFER = 3
    HOOK = 4
    GRAD = 5
    SEED = 6
    LEAF = 7


class Phase(IntEnum):
    """What a span stands for."""

    USER = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    MODULE = 4


Row = Any
"""A row is an instance of one of the classes below."""

TABLES: dict[str, type[Row]] = {}
EVENTS: dict[str, type[Row]] = {}


@dataclass(frozen=True, slots=True)
class Column:
    """How one field of a row is stored."""

    name: str
    type: type
    many: bool
    ref: str | None
    time: bool
    interned: bool


def table(name: str) -> Callable[[type[Row]], type[Row]]:
    """Declare a table: rows are looked up by `id` when they have one."""

    def declare(row: type[Row]) -> type[Row]:
        made = dataclass(frozen=True, slots=True)(row)
        made.TABLE = name
        TABLES[name] = made
        return made

    return declare


def event(name: str) -> Callable[[type[Row]], type[Row]]:
    """Declare an event kind: a table of its own, ordered among all events by `seq`."""

    def declare(row: type[Row]) -> type[Row]:
        made = table(f"event.{name}")(row)
        made.KIND = name
        EVENTS[name] = made
        return made

    return declare


@cache
def columns(row: type[Row]) -> tuple[Column, ...]:
    """The columns of a table or event kind, in order."""
    hints = get_type_hints(row, include_extras=True)
    return tuple(_column(field.name, hints[field.name]) for field in fields(row))


def _column(name: str, hint: Any) -> Column:
    marks: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        marks = tuple(rest)
    many = get_origin(hint) is tuple
    base = get_args(hint)[0] if many else hint
    ref = next((mark.table for mark in marks if isinstance(mark, Ref)), None)
    return Column(
        name=name,
        type=base,
        many=many,
        ref=ref,
        time=any(isinstance(mark, Time) for mark in marks),
        interned=any(isinstance(mark, Interned) for mark in marks),
    )


# ---------------------------------------------------------------------------------------------
# Tables


@table("meta")
class Meta:
    """One fact about the run. A later row of the same key replaces the earlier.

    Keys: producer, producer_version, level, script, arguments, cwd, host, pid, rank, world_size,
    clock_base (ns since the epoch), python, seeds, dropped (kind → count), cost_ns, observed,
    inferred, exit (how the script ended).
    """

    TABLE: ClassVar[str]
    key: Text
    value: Text  # JSON


@table("string")
class String:
    """Interned text. Id 0 is the empty string."""

    TABLE: ClassVar[str]
    id: int
    text: str


@table("frame")
class Frame:
    """A source line, with its text, so that the trace is self-contained."""

    TABLE: ClassVar[str]
    id: int
    file: Text
    line: int
    function: Text
    text: Text


@table("stack")
class Stack:
    """A call stack as a link: this frame, called from that stack."""

    TABLE: ClassVar[str]
    id: int
    frame: FrameId
    parent: StackId  # NONE at the outermost frame


@table("module")
class Module:
    """A module of the model, by the path its owner gives it."""

    TABLE: ClassVar[str]
    id: int
    path: Text  # "" for the root, then "layer1.0.conv1"
    type: Text
    parent: ModuleId
    parameters: TensorIds


@table("thread")
class Thread:
    """A thread that ran something of the program."""

    TABLE: ClassVar[str]
    id: int
    name: Text
    native: int


@table("device")
class Device:
    """A device that holds tensors: `cpu`, `sim:0`."""

    TABLE: ClassVar[str]
    id: int
    name: Text


@table("step")
class Step:
    """One training step. `end` arrives later, as an amendment; NONE while it runs."""

    TABLE: ClassVar[str]
    id: int
    number: int
    begin: Ns
    end: Ns


@table("span")
class Span:
    """A stretch of time with a name. `end` arrives later, as an amendment."""

    TABLE: ClassVar[str]
    id: int
    name: Text
    phase: int  # Phase
    parent: SpanId
    thread: ThreadId
    step: StepId
    begin: Ns
    end: Ns


@table("mark")
class Mark:
    """A moment the user named."""

    TABLE: ClassVar[str]
    id: int
    name: Text
    note: Text
    t: Ns
    thread: ThreadId
    step: StepId


@table("storage")
class Storage:
    """Bytes that one or several tensors share. `freed` arrives later; NONE while alive."""

    TABLE: ClassVar[str]
    id: int
    bytes: int
    device: DeviceId
    born: Ns
    freed: Ns
    holder: Text  # who holds it at the end of the trace, where known


@table("tensor")
class Tensor:
    """A tensor as it was first seen."""

    TABLE: ClassVar[str]
    id: int
    shape: Ints
    strides: Ints  # in elements, as PyTorch counts
    dtype: Text
    device: DeviceId
    storage: StorageId
    bytes: int
    version: int
    leaf: bool
    requires_grad: bool
    name: Text  # parameter name where there is one
    op: OpId  # the call that made it


@table("op")
class Op:
    """A forward call."""

    TABLE: ClassVar[str]
    id: int
    name: Text  # "mul.Tensor"
    path: Text  # dispatch keys it went through, where recorded
    begin: Ns
    end: Ns
    inputs: TensorIds  # in the order of the operator's arguments
    outputs: TensorIds
    node: NodeId
    why: int  # Why: the reason there is no node
    module: ModuleId
    stack: StackId
    thread: ThreadId
    task: TaskId  # the graph task it ran in: hooks, custom functions, create_graph
    step: StepId
    phase: int  # Phase


@table("node")
class Node:
    """A backward function."""

    TABLE: ClassVar[str]
    id: int
    name: Text  # "MulBackward0"
    sequence_nr: int  # -1 for AccumulateGrad, which runs as soon as it is ready
    topological_nr: int
    op: OpId  # the forward call that made it; NONE for AccumulateGrad
    inputs: TensorIds  # one per gradient it takes: the outputs of the forward call, or the leaf
    task: TaskId  # made during which graph task (double backward)
    module: ModuleId
    stack: StackId
    thread: ThreadId
    step: StepId
    t: Ns


@table("edge")
class Edge:
    """Where one gradient that a node returns goes to."""

    TABLE: ClassVar[str]
    node: NodeId
    index: int  # which output of `node`
    next: NodeId  # NONE: nobody wants this gradient
    input_nr: int


@table("saved")
class Saved:
    """One value a node keeps for its backward. `released` arrives later; NONE while held."""

    TABLE: ClassVar[str]
    id: int
    node: NodeId
    slot: Text  # PyTorch's name: self, other, result
    tensor: TensorId
    version: int
    bytes: int
    hooked: bool  # packed by a saved-tensor hook
    t: Ns
    released: Ns
    task: TaskId  # the graph task that released it


@table("version")
class Version:
    """One in-place write."""

    TABLE: ClassVar[str]
    storage: StorageId
    tensor: TensorId  # the tensor written through; a view where it is one
    old: int
    new: int
    op: OpId
    stack: StackId
    thread: ThreadId
    t: Ns


@table("graph_task")
class GraphTask:
    """One backward. `end`, `error` arrive later; end is NONE while it runs."""

    TABLE: ClassVar[str]
    id: int
    roots: NodeIds
    inputs: NodeIds  # what `inputs=` asked for
    keep_graph: bool
    create_graph: bool
    accumulate_grad: bool
    depth: int  # reentrant depth
    parent: TaskId
    thread: ThreadId  # the owner
    stack: StackId  # where backward was called
    step: StepId
    needed: NodeIds  # exec info: empty when everything runs
    captured: NodeIds
    begin: Ns
    end: Ns
    error: Text


@table("value")
class Value:
    """Statistics of one tensor at one point."""

    TABLE: ClassVar[str]
    id: int
    place: int  # Place
    op: OpId
    node: NodeId
    index: int  # which output of the op, or which input or output of the node
    tensor: TensorId
    task: TaskId
    step: StepId
    seq: int  # the event it belongs to; NONE in the forward pass
    t: Ns
    count: int
    nan: int
    posinf: int
    neginf: int
    zero: int
    min: float  # of the finite elements, as all below; NaN when there is none
    max: float
    mean: float
    rms: float
    norm: float
    bad: Ints  # flat indices of the first non-finite elements
    histogram: Ints  # log2 buckets, where recorded
    data: Text  # JSON of the values, where recorded


@table("finding")
class Finding:
    """An anomaly seen while recording."""

    TABLE: ClassVar[str]
    id: int
    kind: Text  # "nan", "inf", "exception"
    message: Text
    place: int  # Place
    op: OpId
    node: NodeId
    seq: int
    stack: StackId
    t: Ns


# ---------------------------------------------------------------------------------------------
# Events: what the engine did, in order. Every event begins with the same four columns.


@event("dependency")
class Dependency:
    """The engine counted how many gradients a node will receive."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    count: int


@event("task_begin")
class TaskBegin:
    """A graph task starts."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId


@event("task_end")
class TaskEnd:
    """A graph task is complete."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    failed: bool


@event("push")
class Push:
    """A node whose gradients are all there enters a ready queue."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    queue: int
    depth: int  # reentrant depth: the first key of the order; the node's sequence_nr is the next
    length: int  # of the queue, afterwards


@event("pop")
class Pop:
    """A thread takes the foremost node of its queue."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    queue: int
    length: int  # of the queue, afterwards


@event("node_begin")
class NodeBegin:
    """A node's backward starts."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId


@event("node_end")
class NodeEnd:
    """A node's backward returned, and its outputs were validated."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    failed: bool


@event("skipped")
class Skipped:
    """A node was reached but is not needed for `inputs=`."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId


@event("decrement")
class Decrement:
    """A gradient for `node` arrived: its count went down."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    source: NodeId  # the node that sent it
    index: int  # which output of the source
    remaining: int


@event("buffer_made")
class BufferMade:
    """The first gradient for one input of `node` was kept."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    input_nr: int
    undefined: bool  # None arrived


@event("buffer_added")
class BufferAdded:
    """A further gradient was added to the one already kept."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    input_nr: int
    in_place: bool
    undefined: bool


@event("hook_begin")
class HookBegin:
    """A hook is called."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    hook: int  # HookKind
    index: int  # position among the hooks of its kind on this node
    stack: StackId  # where it was registered
    name: Text  # of the function


@event("hook_end")
class HookEnd:
    """A hook returned."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    hook: int
    index: int
    replaced: bool


@event("capture")
class Capture:
    """A gradient asked for by `inputs=` was captured."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    input_nr: int


@event("accumulate")
class Accumulate:
    """A gradient arrived in `.grad`."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    tensor: TensorId  # the leaf
    how: int  # Accumulation


@event("saved_unpacked")
class SavedUnpacked:
    """A saved value was read back."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    saved: SavedId


@event("saved_released")
class SavedReleased:
    """A node let go of everything it had saved."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId


@event("callback")
class Callback:
    """A callback queued for the end of a graph task ran."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    name: Text


@event("reentrant_enter")
class ReentrantEnter:
    """A backward starts inside `node` of an outer graph task."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    depth: int
    pool: bool  # moved to a pool thread


@event("reentrant_leave")
class ReentrantLeave:
    """A reentrant backward is over."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    depth: int


@event("wait")
class Wait:
    """A thread goes to sleep for want of work."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    queue: int


@event("wake")
class Wake:
    """A thread wakes up."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    queue: int


@event("error")
class Error:
    """Something raised."""

    KIND: ClassVar[str]
    seq: int
    t: Ns
    thread: ThreadId
    task: TaskId
    node: NodeId
    type: Text
    message: Text
