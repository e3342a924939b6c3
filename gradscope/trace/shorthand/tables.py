"""The short tables: how notes of calls, runs and gradients stand in a file."""

from __future__ import annotations

from gradscope.trace.schema.declare import NONE, Ints, Row, Text, declared

SHORT: dict[str, type[Row]] = {}
"""Every short table, by name. They are not part of a trace: reading a file writes them out."""


def short(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN201 -- a decorator of classes
    """Declare a short table."""

    def declare(row: type[Row]) -> type[Row]:
        made = declared(row)
        made.TABLE = f"short.{name}"
        SHORT[made.TABLE] = made
        return made

    return declare


@short("operator")
class Operator(Row):
    """An operation: its names, and which input each gradient of its node is for."""

    number: int
    name: Text = ""
    node_name: Text = ""
    reason: int = 0  # Why a call of it has no node, when grad mode is on
    sources: Ints = ()  # for each edge: 0 or 1 for an input, else ABSENT


@short("slot")
class Slot(Row):
    """One thing the node of an operation keeps."""

    operator: int
    name: Text = ""
    source: int = 0  # an input, RESULT, or ABSENT
    wanted: int = 0  # a bit for each edge that asks for it; 0: always kept


@short("layout")
class Layout(Row):
    """A shape and dtype that results have."""

    id: int
    shape: Ints = ()
    dtype: Text = ""
    bytes: int = 0


@short("context")
class Context(Row):
    """Where a thread was."""

    id: int
    thread: int = 0
    module: int = 0
    task: int = 0
    step: int = 0
    phase: int = 0


@short("call")
class Call(Row):
    """A forward call with one or two tensors and one result, all under one id."""

    number: int
    begin: int = 0
    end: int = 0
    context: int = 0
    op: int = 0
    sequence: int = (
        0  # of its node; -1: no node; -2: no node, as grad mode was off; -3: in inference mode
    )
    topological: int = 0
    first: int = 0
    second: int = 0
    site: int = 0
    layout: int = 0


@short("origin")
class Origin(Row):
    """From the call `since` on, the gradient of a tensor goes here."""

    tensor: int
    since: int = 0
    node: int = 0
    output: int = 0


@short("explicit")
class Explicit(Row):
    """The edges and saved tensors of this call's node are written in full."""

    number: int


@short("view")
class View(Row):
    """The result of this call looks at an older storage."""

    number: int
    storage: int = 0


@short("saved")
class Saved(Row):
    """A saved tensor; its id and its size follow."""

    node: int
    slot: Text = ""
    tensor: int = 0
    version: int = 0
    t: int = 0
    hooked: int = 0


@short("run")
class Run(Row):
    """The run of a node. told: 1 it let go of what it saved, 0 not, -1 its events come singly."""

    begin: int
    ended: int = 0
    task: int = 0
    node: int = 0
    popped: int = 0  # length of the queue after it was taken
    told: int = 0


@short("ran")
class Ran(Row):
    """The run of a node that was seen from outside: when, and what the node said its number was.

    The rows of a task are in order. See Note [Foretold] in foretold.py.
    """

    task: int
    begin: int = 0
    ended: int = 0
    sequence: int = 0  # -1: an AccumulateGrad


@short("inside")
class Inside(Row):
    """What an engine that was seen from outside did with gradients in the run of a node.

    what: an Accumulation; or ADDED, ADDED_IN_PLACE: after the run a gradient was added to one that
    is kept. run: the how-manieth of the task; NONE, with SEEN: all such of the task is told.
    """

    task: int
    run: int = 0
    what: int = 0


SEEN, ADDED, ADDED_IN_PLACE = -1, 4, 5


@short("look")
class Look(Row):
    """What a tensor held, where and when, seen from outside. See Note [Looks] in looks.py.

    place: a Place; or ARRIVED, OPERAND. The last four are bits of floating-point numbers.
    """

    t: int
    place: int = 0
    index: int = 0
    op: int = NONE
    node: int = NONE  # NONE, with a run: that which ran then
    tensor: int = NONE
    task: int = NONE
    step: int = NONE
    run: int = NONE  # the how-manieth of the task
    sum: int = NONE  # the how-manieth addition after that run
    count: int = 0
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    zero: int = 0
    wide: int = 0  # 1: of double precision; 0: of single
    min: int = 0
    max: int = 0
    mean: int = 0
    rms: int = 0
    bad: Ints = ()


ARRIVED, OPERAND = 16, 17

UNDER_WAY = 2
"""Of a graph task in `failed`: the next node is running, while somebody looks at the trace."""


@short("asked")
class Asked(Row):
    """What a graph task with such rows was asked, where its own row does not say."""

    task: int
    root: int = 0  # the node that is pushed first
    failed: int = 0  # an exception ended it; UNDER_WAY: nothing has
    inputs: Ints = ()  # nodes whose gradients were asked for
    input_nrs: Ints = ()  # and which of their inputs


@short("move")
class Move(Row):
    """A gradient handed on by the run that began at `begin`."""

    begin: int
    target: int = 0
    index: int = 0
    nr: int = 0
    how: int = 0  # 0 kept, 1 added, 2 added in place; and 4 if None arrived
    left: int = 0
    length: int = 0


@short("event")
class Single(Row):
    """One event by itself: a code (of those in `schema.events`) and up to four numbers."""

    t: int
    code: int = 0
    thread: int = 0
    task: int = 0
    node: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0


@short("dependency")
class Counted(Row):
    """How many gradients a node will receive, counted when a task began."""

    t: int
    task: int = 0
    node: int = 0
    count: int = 0
