"""Which kinds of events a trace has: what the engine did, in order."""

from __future__ import annotations

from enum import IntEnum

from gradscope.trace.schema.declare import (
    NONE,
    Event,
    ModuleId,
    NodeId,
    SavedId,
    StackId,
    TensorId,
    Text,
    event,
)


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


@event("dependency")
class Dependency(Event):
    """The engine counted how many gradients a node will receive."""

    node: NodeId = NONE
    count: int = 0


@event("task_begin")
class TaskBegin(Event):
    """A graph task starts."""


@event("task_end")
class TaskEnd(Event):
    """A graph task is complete."""

    failed: bool = False


@event("push")
class Push(Event):
    """A node whose gradients are all there enters a ready queue."""

    node: NodeId = NONE
    queue: int = 0
    depth: int = (
        0  # reentrant depth: the first key of the order; the node's sequence_nr is the next
    )
    length: int = 0  # of the queue, afterwards


@event("pop")
class Pop(Event):
    """A thread takes the foremost node of its queue."""

    node: NodeId = NONE
    queue: int = 0
    length: int = 0  # of the queue, afterwards


@event("node_begin")
class NodeBegin(Event):
    """A node's backward starts."""

    node: NodeId = NONE


@event("node_end")
class NodeEnd(Event):
    """A node's backward returned, and its outputs were validated."""

    node: NodeId = NONE
    failed: bool = False


@event("skipped")
class Skipped(Event):
    """A node was reached but is not needed for `inputs=`."""

    node: NodeId = NONE


@event("decrement")
class Decrement(Event):
    """A gradient for `node` arrived: its count went down."""

    node: NodeId = NONE
    source: NodeId = NONE  # the node that sent it
    index: int = 0  # which output of the source
    remaining: int = 0


@event("buffer_made")
class BufferMade(Event):
    """The first gradient for one input of `node` was kept."""

    node: NodeId = NONE
    input_nr: int = 0
    undefined: bool = False  # None arrived


@event("buffer_added")
class BufferAdded(Event):
    """A further gradient was added to the one already kept."""

    node: NodeId = NONE
    input_nr: int = 0
    in_place: bool = False
    undefined: bool = False


@event("hook_begin")
class HookBegin(Event):
    """A hook is called."""

    node: NodeId = NONE
    hook: int = 0  # HookKind
    index: int = 0  # position among the hooks of its kind on this node
    stack: StackId = NONE  # where it was registered
    name: Text = ""  # of the function
    module: ModuleId = NONE  # whose forward or backward it attends


@event("hook_end")
class HookEnd(Event):
    """A hook returned."""

    node: NodeId = NONE
    hook: int = 0
    index: int = 0
    replaced: bool = False


@event("capture")
class Capture(Event):
    """A gradient asked for by `inputs=` was captured."""

    node: NodeId = NONE
    input_nr: int = 0


@event("accumulate")
class Accumulate(Event):
    """A gradient arrived in `.grad`."""

    node: NodeId = NONE
    tensor: TensorId = NONE  # the leaf
    how: int = 0  # Accumulation


@event("saved_unpacked")
class SavedUnpacked(Event):
    """A saved value was read back."""

    node: NodeId = NONE
    saved: SavedId = NONE


@event("saved_released")
class SavedReleased(Event):
    """A node let go of everything it had saved."""

    node: NodeId = NONE


@event("callback")
class Callback(Event):
    """A callback queued for the end of a graph task ran."""

    name: Text = ""


@event("reentrant_enter")
class ReentrantEnter(Event):
    """A backward starts inside `node` of an outer graph task."""

    node: NodeId = NONE
    depth: int = 0
    pool: bool = False  # moved to a pool thread


@event("reentrant_leave")
class ReentrantLeave(Event):
    """A reentrant backward is over."""

    depth: int = 0


@event("wait")
class Wait(Event):
    """A thread goes to sleep for want of work."""

    queue: int = 0


@event("wake")
class Wake(Event):
    """A thread wakes up."""

    queue: int = 0


@event("error")
class Error(Event):
    """Something raised."""

    node: NodeId = NONE
    type: Text = ""
    message: Text = ""
