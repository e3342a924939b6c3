"""Which tables a trace has besides its events, and what each of their columns means."""

from __future__ import annotations

import math
from enum import IntEnum

from gradscope.trace.schema.declare import (
    NONE,
    DeviceId,
    FrameId,
    Ints,
    JsonObject,
    ModuleId,
    NodeId,
    NodeIds,
    Ns,
    OpId,
    Row,
    SpanId,
    StackId,
    StepId,
    StorageId,
    TaskId,
    TensorId,
    TensorIds,
    Text,
    ThreadId,
    table,
)


class Why(IntEnum):
    """Why a forward call made no node."""

    MADE = 0
    NO_GRAD = 1
    NO_INPUT_REQUIRES_GRAD = 2
    NOT_DIFFERENTIABLE = 3
    DETACHED = 4
    INFERENCE = 5


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
    OWN_WORK = 5  # of gradscope itself: compiling, or loading what it compiled; no sum counts it
    COLLECTIVE = 6  # a call in which processes that train together meet


@table("string")
class String(Row):
    """Interned text. Id 0 is the empty string."""

    id: int
    text: str = ""


@table("meta")
class Meta(Row):
    """One fact about the run. A later row of the same key replaces the earlier."""

    key: Text  # of `RunFacts`
    value: Text = ""  # JSON


@table("frame")
class Frame(Row):
    """A source line, with its text, so that the trace is self-contained."""

    id: int
    file: Text = ""
    line: int = 0
    function: Text = ""
    text: Text = ""


@table("stack")
class Stack(Row):
    """A call stack as a link: this frame, called from that stack."""

    id: int
    frame: FrameId = NONE
    parent: StackId = NONE  # NONE at the outermost frame


@table("source")
class Source(Row):
    """A file of the program of which something ran, as it was when the recording ended.

    At most 40 files of at most 5,000 lines, and none of installed packages. `gradscope trace
    --no-source` leaves them out (meta.left_out).
    """

    id: int
    file: Text = ""  # as in `frame`
    text: Text = ""


@table("module")
class Module(Row):
    """A module of the model, by the path its owner gives it."""

    id: int
    path: Text = ""  # "" for the root, then "layer1.0.conv1"
    type: Text = ""
    parent: ModuleId = NONE
    parameters: TensorIds = ()
    name: Text = ""  # of a root: the variable or attribute that the program calls it by


@table("thread")
class Thread(Row):
    """A thread that ran something of the program."""

    id: int
    name: Text = ""
    native: int = 0
    rank: int = 0  # of its process, among those that train together


@table("device")
class Device(Row):
    """A device that holds tensors: `cpu`, `sim:0`."""

    id: int
    name: Text = ""


@table("step")
class Step(Row):
    """One training step: up to the end of an optimizer's step, or to `gradscope.step()`.

    Where there is neither (`meta.steps_end_with`), a backward that is called again and again ends
    one: the next begins where history is recorded again or, where steps may be left out (`--steps`,
    `--max-events`), at once. What follows the last step of an optimizer, or the last such backward,
    counts as one only if a backward begins in it; the row is there all the same. `end` arrives
    later, as an amendment; NONE while it runs.
    """

    id: int
    number: int = 0
    begin: Ns = 0
    end: Ns = NONE


@table("span")
class Span(Row):
    """A stretch of time with a name. `end` arrives later, as an amendment."""

    id: int
    name: Text = ""
    phase: int = 0  # Phase
    parent: SpanId = NONE
    thread: ThreadId = NONE
    step: StepId = NONE
    begin: Ns = 0
    end: Ns = NONE


@table("mark")
class Mark(Row):
    """A moment the user named."""

    id: int
    name: Text = ""
    note: Text = ""
    t: Ns = 0
    thread: ThreadId = NONE
    step: StepId = NONE


@table("storage")
class Storage(Row):
    """Bytes that one or several tensors share. `freed` arrives later; NONE while alive.

    Only of storages of `meta.follows_from` bytes and more the end is seen; on PyTorch at the next
    end of a backward or step, and such memory has one row as long as it is there.
    """

    id: int
    bytes: int = 0
    device: DeviceId = NONE
    born: Ns = 0
    freed: Ns = NONE


@table("tensor")
class Tensor(Row):
    """A tensor as it was first seen."""

    id: int
    shape: Ints = ()  # NONE: a size that is no number, of a nested tensor
    strides: Ints = ()  # in elements, as PyTorch counts
    dtype: Text = ""
    device: DeviceId = NONE
    storage: StorageId = NONE
    bytes: int = 0
    version: int = 0
    leaf: bool = False
    requires_grad: bool = False
    name: Text = ""  # parameter name where there is one
    op: OpId = NONE  # the call that made it


@table("op")
class Op(Row):
    """A forward call."""

    id: int
    name: Text = ""  # "mul.Tensor"
    path: Text = ""  # dispatch keys it went through, where recorded
    begin: Ns = 0
    end: Ns = NONE
    inputs: TensorIds = ()  # in the order of the operator's arguments
    outputs: TensorIds = ()
    node: NodeId = NONE
    why: int = 0  # Why: the reason there is no node
    module: ModuleId = NONE
    stack: StackId = NONE
    thread: ThreadId = NONE
    task: TaskId = NONE  # the graph task it ran in: hooks, custom functions, create_graph
    step: StepId = NONE
    phase: int = 0  # Phase


@table("node")
class Node(Row):
    """A backward function.

    `arguments`: what its call was given besides tensors, as far as the node keeps it. It is read
    of some: of nodes of one kind and shape from one line the first four, the eighth, sixteenth, …
    Besides of a convolution, `input_is_a_view_of`: the shape of what its input views in order.

    `died` arrives later: when the last that held it let go, where that is seen (`meta.absent`).
    """

    id: int
    name: Text = ""  # "MulBackward0"
    sequence_nr: int = 0  # -1 for AccumulateGrad, which runs as soon as it is ready
    topological_nr: int = 0
    op: OpId = NONE  # the forward call that made it; NONE for AccumulateGrad
    inputs: TensorIds = ()  # one per gradient it takes: the forward call's outputs, or the leaf
    task: TaskId = NONE  # made during which graph task (double backward)
    module: ModuleId = NONE
    stack: StackId = NONE
    thread: ThreadId = NONE
    step: StepId = NONE
    t: Ns = 0
    arguments: JsonObject = ""  # by PyTorch's names; "": it was not read, or there are none
    died: Ns = NONE
    results: JsonObject = ""  # count, mean and rms of a tanh's, sigmoid's or softmax's results, of
    # those whose arguments are read; of many, of a part


@table("edge")
class Edge(Row):
    """Where one gradient that a node returns goes to."""

    node: NodeId = NONE
    index: int = 0  # which output of `node`
    next: NodeId = NONE  # NONE: nobody wants this gradient
    input_nr: int = 0


@table("saved")
class Saved(Row):
    """One value a node keeps for its backward. `released` arrives later; NONE while held."""

    id: int
    node: NodeId = NONE
    slot: Text = ""  # PyTorch's name: self, other, result
    tensor: TensorId = NONE
    version: int = 0
    bytes: int = 0
    hooked: bool = False  # packed by a saved-tensor hook
    t: Ns = 0
    released: Ns = NONE
    task: TaskId = NONE  # the graph task that released it


@table("version")
class Version(Row):
    """One in-place write."""

    storage: StorageId = NONE
    tensor: TensorId = NONE  # the tensor written through; a view where it is one
    old: int = 0  # NONE, as `new`: not known
    new: int = 0
    op: OpId = NONE
    stack: StackId = NONE
    thread: ThreadId = NONE
    t: Ns = 0


class Order(IntEnum):
    """How the order in which a graph task ran its nodes is known, and with it what led to it."""

    TOLD = 0  # the engine told each push and pop
    FORETOLD = 1  # nodes ran in the order that the rules foretell: counts and queue are replayed
    OTHERWISE = 2  # they ran in another order
    NOT_SEEN = 3
    NOT_THE_SUMS = 4  # in the order foretold, but other sums were made: a gradient was None


@table("graph_task")
class GraphTask(Row):
    """One backward. `end`, `error` arrive later; end is NONE while it runs."""

    id: int
    roots: NodeIds = ()
    inputs: NodeIds = ()  # what `inputs=` asked for
    keep_graph: bool = False
    create_graph: bool = False
    accumulate_grad: bool = False
    depth: int = 0  # reentrant depth
    parent: TaskId = NONE
    thread: ThreadId = NONE  # the owner
    stack: StackId = NONE  # where backward was called
    step: StepId = NONE
    needed: NodeIds = ()  # exec info: empty when everything runs
    captured: NodeIds = ()
    order: int = 0  # Order
    otherwise: NodeIds = ()  # where it first differs: which ran (NONE: some leaf), which should
    begin: Ns = 0
    end: Ns = NONE
    error: Text = ""


@table("value")
class Value(Row):
    """Statistics of one tensor at one point."""

    id: int
    place: int = 0  # Place
    op: OpId = NONE
    node: NodeId = NONE  # of a LEAF: the node that handed this gradient to the program
    index: int = 0  # which output of the op, or input or output of the node; NONE: its `.grad`
    tensor: TensorId = NONE
    task: TaskId = NONE
    step: StepId = NONE
    seq: int = NONE  # the event it belongs to; NONE in the forward pass
    t: Ns = 0
    count: int = 0
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    zero: int = 0
    min: float = math.nan  # of the finite elements, as all below; NaN when there is none
    max: float = math.nan
    mean: float = math.nan
    rms: float = math.nan
    norm: float = math.nan
    bad: Ints = ()  # flat indices of the first non-finite elements
    data: Text = ""  # JSON of the values, where recorded


@table("finding")
class Finding(Row):
    """An anomaly seen while recording."""

    id: int
    kind: Text = ""  # "nan", "inf", "exception"
    message: Text = ""
    place: int = 0  # Place
    op: OpId = NONE
    node: NodeId = NONE
    seq: int = NONE
    stack: StackId = NONE
    t: Ns = 0
