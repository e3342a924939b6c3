"""The tables of a trace other than events, and the meaning of their columns."""

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
    RegionId,
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
    """Why a forward call created no node."""

    MADE = 0
    NO_GRAD = 1
    NO_INPUT_REQUIRES_GRAD = 2
    NOT_DIFFERENTIABLE = 3
    DETACHED = 4
    INFERENCE = 5


class Place(IntEnum):
    """The point at which a value was measured."""

    OP_OUTPUT = 0
    NODE_INPUT = 1
    NODE_OUTPUT = 2
    BUFFER = 3
    HOOK = 4
    GRAD = 5
    SEED = 6
    LEAF = 7


class Phase(IntEnum):
    """What a span represents."""

    USER = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    MODULE = 4
    OWN_WORK = 5  # gradscope itself compiles, or loads compiled code; excluded from all sums
    COLLECTIVE = 6  # a collective operation of distributed training, a send or a receive


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
    """A source file of the program that was executed, as it was when the recording ended.

    At most 40 files of at most 5,000 lines each, without installed packages. `gradscope trace
    --no-source` leaves them out (meta.left_out).
    """

    id: int
    file: Text = ""  # as in `frame`
    text: Text = ""


@table("module")
class Module(Row):
    """A module of the model, by its path."""

    id: int
    path: Text = ""  # "" for the root, then "layer1.0.conv1"
    type: Text = ""
    parent: ModuleId = NONE
    parameters: TensorIds = ()
    name: Text = ""  # for a root: the variable or attribute of the program that holds it


@table("thread")
class Thread(Row):
    """A thread that ran part of the program."""

    id: int
    name: Text = ""
    native: int = 0
    rank: int = 0  # rank of its process in distributed training


@table("device")
class Device(Row):
    """A device that holds tensors: `cpu`, `sim:0`."""

    id: int
    name: Text = ""


@table("step")
class Step(Row):
    """One training step. It ends with an optimizer's step, or with `gradscope.step()`.

    If there is neither (`meta.steps_end_with`), it ends with a backward that is called repeatedly.
    The next step then begins with the next forward that is recorded by autograd or, if steps can
    be left out (`--steps`, `--max-events`), at once. What follows the last optimizer step, or the
    last such backward, counts as a step only if a backward begins in it; it has a row in any case.
    `end` arrives later, as an amendment; NONE while the step runs.

    In a very long run one row stands for several steps that follow one another, all of them left
    out: `number` is that of the first, `joined` counts the others, and the last one ends at `end`.
    """

    id: int
    number: int = 0
    begin: Ns = 0
    end: Ns = NONE
    joined: int = 0


@table("span")
class Span(Row):
    """A period of time with a name. `end` arrives later, as an amendment."""

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
    """A point in time marked by the user."""

    id: int
    name: Text = ""
    note: Text = ""
    t: Ns = 0
    thread: ThreadId = NONE
    step: StepId = NONE


@table("storage")
class Storage(Row):
    """Memory that one or more tensors share. `freed` arrives later; NONE while it is allocated.

    `freed` is recorded only for storages of at least `meta.follows_from` bytes. On PyTorch it is
    noticed at the next end of a backward or step, and such a storage has one row while it exists.
    """

    id: int
    bytes: int = 0
    device: DeviceId = NONE
    born: Ns = 0
    freed: Ns = NONE


@table("tensor")
class Tensor(Row):
    """A tensor, as it was when first recorded."""

    id: int
    shape: Ints = ()  # NONE: a size of a nested tensor that varies
    strides: Ints = ()  # in elements, as in PyTorch
    dtype: Text = ""
    device: DeviceId = NONE
    storage: StorageId = NONE
    bytes: int = 0
    version: int = 0
    leaf: bool = False
    requires_grad: bool = False
    name: Text = ""  # parameter name, if it has one
    op: OpId = NONE  # the call that created it


@table("op")
class Op(Row):
    """A forward call."""

    id: int
    name: Text = ""  # "mul.Tensor"
    path: Text = ""  # dispatch keys it went through, if recorded
    begin: Ns = 0
    end: Ns = NONE
    inputs: TensorIds = ()  # in the order of the operator's arguments
    outputs: TensorIds = ()
    node: NodeId = NONE
    why: int = 0  # Why: the reason there is no node
    module: ModuleId = NONE
    stack: StackId = NONE
    thread: ThreadId = NONE
    task: TaskId = NONE  # the graph task it ran in: hooks, custom Functions, create_graph
    step: StepId = NONE
    phase: int = 0  # Phase


@table("node")
class Node(Row):
    """A backward function.

    `arguments`: the arguments of its call that are not tensors, as far as the node stores them.
    They are read for some nodes: of those with the same name and shape from the same line, for the
    first four, the eighth, the sixteenth, … For a convolution there is also `input_is_a_view_of`:
    the shape of the tensor of which its input is a view in the same order.

    `results`: count, mean and rms of the results of a tanh, sigmoid or softmax, for the nodes whose
    arguments are read; of large tensors, for a part of the elements.

    `died` arrives later: when the last reference to it was released, if recorded (`meta.absent`).
    """

    id: int
    name: Text = ""  # "MulBackward0"
    sequence_nr: int = 0  # -1 for AccumulateGrad, which runs as soon as it is ready
    topological_nr: int = 0
    op: OpId = NONE  # the forward call that created it; NONE for AccumulateGrad
    inputs: TensorIds = ()  # one per gradient it receives: outputs of the call, or the leaf
    task: TaskId = NONE  # the graph task that was running when it was created (double backward)
    module: ModuleId = NONE
    stack: StackId = NONE
    thread: ThreadId = NONE
    step: StepId = NONE
    t: Ns = 0
    arguments: JsonObject = ""  # by PyTorch's names; "": not read, or there are none
    died: Ns = NONE
    results: JsonObject = ""  # see above
    region: RegionId = NONE  # of a CompiledFunctionBackward: its graph


@table("edge")
class Edge(Row):
    """The destination of one gradient that a node returns."""

    node: NodeId = NONE
    index: int = 0  # which output of `node`
    next: NodeId = NONE  # NONE: this gradient is not needed
    input_nr: int = 0


@table("saved")
class Saved(Row):
    """One value a node saves for its backward. `released` arrives later; NONE while held."""

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
    tensor: TensorId = NONE  # the tensor written through, which may be a view
    old: int = 0  # version before the write; NONE, as for `new`: not known
    new: int = 0
    op: OpId = NONE
    stack: StackId = NONE
    thread: ThreadId = NONE
    t: Ns = 0


class Order(IntEnum):
    """How the order of a graph task's nodes is known, and with it counts and queue."""

    TOLD = 0  # the engine reported each push and pop
    FORETOLD = 1  # nodes ran in the predicted order: counts and queue are inferred from a replay
    OTHERWISE = 2  # nodes ran in another order than predicted
    NOT_SEEN = 3
    NOT_THE_SUMS = 4  # as FORETOLD, but a gradient was None: which were added is not known


@table("graph_task")
class GraphTask(Row):
    """One backward. `end` and `error` arrive later; `end` is NONE while it runs."""

    id: int
    roots: NodeIds = ()
    inputs: NodeIds = ()  # nodes of the tensors passed as `inputs=`
    keep_graph: bool = False
    create_graph: bool = False
    accumulate_grad: bool = False
    depth: int = 0  # reentrant depth
    parent: TaskId = NONE
    thread: ThreadId = NONE  # the thread that owns it
    stack: StackId = NONE  # where backward was called
    step: StepId = NONE
    needed: NodeIds = ()  # exec info; empty if all nodes run
    captured: NodeIds = ()
    order: int = 0  # Order
    otherwise: NodeIds = ()  # first difference: the node that ran (NONE: a leaf), the predicted one
    begin: Ns = 0
    end: Ns = NONE
    error: Text = ""


@table("value")
class Value(Row):
    """Statistics of one tensor at one point."""

    id: int
    place: int = 0  # Place
    op: OpId = NONE
    node: NodeId = NONE  # for LEAF: the node that passed this gradient to the program
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
    min: float = math.nan  # this and those below: of the finite elements; NaN if there is none
    max: float = math.nan
    mean: float = math.nan
    rms: float = math.nan
    norm: float = math.nan
    bad: Ints = ()  # flat indices of the first non-finite elements
    data: Text = ""  # JSON of the values, if recorded


@table("finding")
class Finding(Row):
    """An anomaly noticed while recording."""

    id: int
    kind: Text = ""  # "nan", "inf", "exception"
    message: Text = ""
    place: int = 0  # Place
    op: OpId = NONE
    node: NodeId = NONE
    seq: int = NONE
    stack: StackId = NONE
    t: Ns = 0
