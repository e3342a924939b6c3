"""The kinds of events in a trace: what the engine did, in order.

Each kind is one declaration. The file format, the pages in docs, `gradscope check`, the counts of
`gradscope info` and the property tests follow from it. The recorder records an event with
`note(kind, task, node, …)`.
"""

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
    """The list in which a hook was registered."""

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
    OPTIMIZER_PRE = 12
    OPTIMIZER_POST = 13


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


@event("task_begin", short={4: ()})
class TaskBegin(Event):
    """A graph task started."""


@event("task_end", short={5: ("failed",)})
class TaskEnd(Event):
    """A graph task ended."""

    failed: bool = False


@event("push", short={3: ("depth", "length"), 16: ("depth", "length", "queue")})
class Push(Event):
    """A node that has received all its gradients was pushed to a ready queue."""

    node: NodeId = NONE
    queue: int = 0
    depth: int = (
        0  # reentrant depth: the first key of the order; the node's sequence_nr is the next
    )
    length: int = 0  # of the queue after the push


@event("pop", short={0: ("length",), 17: ("length", "queue")})
class Pop(Event):
    """A thread popped the first node of its queue."""

    node: NodeId = NONE
    queue: int = 0
    length: int = 0  # of the queue after the pop


@event("node_begin", short={1: ()})
class NodeBegin(Event):
    """The backward of a node started."""

    node: NodeId = NONE


@event("node_end", short={2: ("failed",)})
class NodeEnd(Event):
    """The backward of a node returned, and its outputs were validated."""

    node: NodeId = NONE
    failed: bool = False


@event("skipped", short={6: ()})
class Skipped(Event):
    """A node was reached but is not needed for `inputs=`."""

    node: NodeId = NONE


@event("decrement", short={18: ("source", "index", "remaining")})
class Decrement(Event):
    """A gradient arrived at `node`: its count of missing gradients was decremented."""

    node: NodeId = NONE
    source: NodeId = NONE  # the node that sent it
    index: int = 0  # which output of the source
    remaining: int = 0


@event("buffer_made", short={19: ("input_nr", "undefined")})
class BufferMade(Event):
    """The first gradient for one input of `node` was put into its buffer."""

    node: NodeId = NONE
    input_nr: int = 0
    undefined: bool = False  # the gradient is None


@event("buffer_added", short={20: ("input_nr", "in_place", "undefined")})
class BufferAdded(Event):
    """A further gradient was added to the one in the buffer."""

    node: NodeId = NONE
    input_nr: int = 0
    in_place: bool = False
    undefined: bool = False


@event("hook_begin", short={7: ("hook", "index", "stack", "name")})
class HookBegin(Event):
    """A hook was called."""

    node: NodeId = NONE
    hook: int = 0  # HookKind
    index: int = 0  # position among the hooks of its kind on this node
    stack: StackId = NONE  # definition of its function; if not in Python, its registration
    name: Text = ""  # of the function
    module: ModuleId = NONE  # module on which it was registered


@event("hook_end", short={8: ("hook", "index", "replaced")})
class HookEnd(Event):
    """A hook returned."""

    node: NodeId = NONE
    hook: int = 0
    index: int = 0
    replaced: bool = False


@event("capture", short={9: ("input_nr",)})
class Capture(Event):
    """A gradient requested with `inputs=` was captured."""

    node: NodeId = NONE
    input_nr: int = 0


@event("accumulate", short={10: ("tensor", "how")})
class Accumulate(Event):
    """A gradient was accumulated into `.grad`."""

    node: NodeId = NONE
    tensor: TensorId = NONE  # the leaf
    how: int = 0  # Accumulation


@event("saved_unpacked", short={23: ("saved",)})
class SavedUnpacked(Event):
    """The program read a saved value: in a custom Function, an unpack hook, `node._saved_self`.

    When one of PyTorch's own nodes runs and reads its saved values, there is no such event. In
    short form, `saved` is the index among the values the node has saved, from 0.
    """

    node: NodeId = NONE
    saved: SavedId = NONE


@event("saved_released", short={11: ()})
class SavedReleased(Event):
    """A node released everything it had saved."""

    node: NodeId = NONE


@event("callback", short={12: ("name",)})
class Callback(Event):
    """A callback queued for the end of a graph task ran."""

    name: Text = ""


@event("reentrant_enter", short={13: ("depth", "pool")})
class ReentrantEnter(Event):
    """A backward started inside `node` of an outer graph task."""

    node: NodeId = NONE
    depth: int = 0
    pool: bool = False  # moved to a pool thread


@event("reentrant_leave", short={14: ("depth",)})
class ReentrantLeave(Event):
    """A reentrant backward ended."""

    depth: int = 0


@event("wait", short={21: ("queue",)})
class Wait(Event):
    """A thread went to sleep because there was no work."""

    queue: int = 0


@event("wake", short={22: ("queue",)})
class Wake(Event):
    """A thread woke up."""

    queue: int = 0


@event("error", short={15: ("type", "message")})
class Error(Event):
    """An exception was raised."""

    node: NodeId = NONE
    type: Text = ""
    message: Text = ""
