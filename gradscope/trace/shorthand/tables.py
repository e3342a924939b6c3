"""The short tables: how calls, runs and gradients are written in a file."""

from __future__ import annotations

from gradscope.trace.schema.declare import NONE, Ints, Row, Text, declared

SHORT: dict[str, type[Row]] = {}
"""Every short table, by name. Their rows are expanded to rows of other tables on reading."""


def short(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN201 -- a decorator of classes
    """Declare a short table."""

    def declare(row: type[Row]) -> type[Row]:
        made = declared(row)
        made.TABLE = f"short.{name}"
        SHORT[made.TABLE] = made
        return made

    return declare


@short("operator")
class ShortOperator(Row):
    """Properties shared by all calls of one operation."""

    number: int  # from 0
    name: Text = ""  # op.name
    node_name: Text = ""  # name of the node that a call creates
    reason: int = 0  # op.why of a call without a node, in grad mode
    sources: Ints = ()  # for each edge of the node, the input it leads to: 0, 1, or -9 for no edge


@short("slot")
class ShortSlot(Row):
    """A tensor that the node of an operation saves: one row of `saved` for each call."""

    operator: int
    name: Text = ""  # saved.slot
    source: int = 0  # which tensor: 0 or 1 an input, -2 the result, -9 none
    wanted: int = 0  # bit i: it is saved if edge i has a destination; 0: it is always saved


@short("layout")
class ShortLayout(Row):
    """A combination of shape and dtype of results of calls."""

    id: int
    shape: Ints = ()
    dtype: Text = ""
    bytes: int = 0


@short("context")
class ShortContext(Row):
    """The context of a call: five columns of `op` that many calls share."""

    id: int
    thread: int = 0
    module: int = 0
    task: int = 0
    step: int = 0
    phase: int = 0  # op.phase


@short("call")
class ShortCall(Row):
    """A call of an operation with at most two tensors and one result.

    It stands for a row of `op`, of `tensor` (the result), of `storage` (unless `short.view` names
    an older one) and of `node`, all with the id `number`, and for the rows of `edge` and `saved`
    that follow from `short.operator` and `short.slot`.
    """

    number: int
    begin: int = 0  # time
    end: int = 0  # time
    context: int = 0  # id of `short.context`
    op: int = 0  # number of `short.operator`
    sequence: int = 0  # node.sequence_nr; no node: -1, -2 (grad mode off), -3 (inference mode)
    topological: int = 0  # node.topological_nr; negative: the call made no node
    first: int = 0  # first input: twice its tensor id, and 1 more if the node of that id made it
    second: int = 0  # second input, in the same form; negative: there is none
    site: int = 0  # id of `stack`
    layout: int = 0  # id of `short.layout`


@short("origin")
class ShortOrigin(Row):
    """The destination of a tensor's gradient, for calls from `since` on.

    It applies to inputs of calls that are not marked as created by the node with the same id.
    """

    tensor: int
    since: int = 0  # number of the first such call
    node: int = 0  # edge.next
    output: int = 0  # edge.input_nr


@short("explicit")
class ShortExplicit(Row):
    """A call whose edges and saved tensors are rows of `edge` and `short.saved`."""

    number: int


@short("view")
class ShortView(Row):
    """A call whose result is a view: its tensor has an existing storage."""

    number: int
    storage: int = 0


@short("saved")
class ShortSaved(Row):
    """A row of `saved`. Saved tensors are numbered by time, including those of calls."""

    node: int
    slot: Text = ""
    tensor: int = 0
    version: int = 0
    t: int = 0
    hooked: int = 0


@short("run")
class ShortRun(Row):
    """The run of a node in a backward, which stands for events in this order.

    `told` 0 or 1: `pop` and `node_begin` at `begin`, `node_end` at `ended`, and for 1
    `saved_released` at `ended`. `told` -1: these are rows of `short.event`. The events of its rows
    in `short.move` follow. The thread is that of the graph task; the queue has its number.
    """

    begin: int  # time
    ended: int = 0  # time
    task: int = 0
    node: int = 0
    popped: int = 0  # pop.length
    told: int = 0  # see above


@short("ran")
class ShortSeenRun(Row):
    """The run of a node of PyTorch, whose engine is observed from outside. In order of time.

    Which node ran, and what the engine counted, pushed and popped around it, is inferred by a
    replay of the graph (gradscope/trace/shorthand/replay.py). If the nodes of a task ran in another
    order than in the replay, it gets no events, and graph_task.order says so. If the order is the
    same, but fewer gradients were added than in the replay, it gets no events of buffers.
    """

    task: int
    begin: int = 0  # time
    ended: int = 0  # time
    sequence: int = 0  # sequence_nr of the node that ran; -1: an AccumulateGrad
    thread: int = NONE  # that ran it; NONE: the thread of the graph task


@short("inside")
class ShortInside(Row):
    """What the engine of PyTorch did with a gradient in or after a run of `short.ran`."""

    task: int
    run: int = 0  # index of the run in its task, from 0; -1: see `what`
    what: int = (
        0  # Accumulation; 4, 5: a sum after the run, 5 in place; -1: all rows of the task are here
    )


SEEN, ADDED, ADDED_IN_PLACE = -1, 4, 5


@short("look")
class ShortLook(Row):
    """Statistics of a PyTorch tensor: one row of `value`, or several.

    The statistics of a sum of gradients stand for a value at every place the replay assigns to it.
    """

    t: int  # time
    place: int = 0  # Place; 16: a gradient that arrived in .grad; 17: an operand of a sum
    index: int = 0
    op: int = NONE
    node: int = NONE  # -1, with a run: the node of that run
    tensor: int = NONE
    task: int = NONE
    step: int = NONE
    run: int = NONE  # position of the run in its task, from 0
    sum: int = NONE  # position of the sum after that run, from 0
    count: int = 0
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    zero: int = 0
    wide: int = 0  # 1: the next four are the bits of 64-bit floats; 0: of 32-bit floats
    min: int = 0
    max: int = 0
    mean: int = 0
    rms: int = 0
    bad: Ints = ()


ARRIVED, OPERAND = 16, 17

UNDER_WAY = 2
"""For a graph task, in `failed`: the next node is running when the trace is read."""


@short("asked")
class ShortAsked(Row):
    """Arguments of a PyTorch backward: the starting point for the replay of its runs."""

    task: int
    root: int = 0  # the node that is pushed first
    failed: int = 0  # 1: an exception ended it; 2: it is still running
    inputs: Ints = ()  # nodes of `inputs=`
    input_nrs: Ints = ()  # and which of their inputs


@short("move")
class ShortMove(Row):
    """A gradient that a run passed on: events at the end of the run.

    They are `decrement`, then `buffer_made` or `buffer_added` unless it is not known which, then
    `push` if `left` is 0. Rows whose run (`begin`) does not exist are ignored.
    """

    begin: int  # short.run.begin of that run
    target: int = 0  # the node that receives it
    index: int = 0  # decrement.index
    nr: int = 0  # input_nr
    how: int = 0  # 0 buffer_made, 1 buffer_added, 2 also in place; plus 4 if it is None; 8 unknown
    left: int = 0  # decrement.remaining
    length: int = 0  # push.length


@short("event")
class ShortSingle(Row):
    """One event. The code determines its kind and the meaning of `a` to `d`."""

    t: int  # time
    code: int = 0  # see the table below
    thread: int = 0
    task: int = 0
    node: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0


@short("dependency")
class ShortCounted(Row):
    """A `dependency` event, on the thread of its graph task."""

    t: int  # time
    task: int = 0
    node: int = 0
    count: int = 0
