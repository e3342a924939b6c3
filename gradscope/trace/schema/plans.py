"""Captured steps: what is replayed instead of the program, each replay, and what was not captured.

The calls, nodes and events of a replay stand in the tables of calls, nodes and events, as those of
the step: `replay` says which these are, and how their times are known.
"""

from __future__ import annotations

from enum import StrEnum

from gradscope.trace.schema.declare import (
    NONE,
    CapturedId,
    Ints,
    JsonList,
    NodeId,
    Ns,
    OpId,
    PlanId,
    Row,
    StackId,
    StepId,
    TensorId,
    Text,
    ThreadId,
    table,
)


@table("captured")
class CapturedStep(Row):
    """A function that is captured: a step, or a piece of one that was cut."""

    id: int
    name: Text = ""
    stack: StackId = NONE  # its first line
    whole: CapturedId = NONE  # the step it is a piece of
    first: int = 0  # lines of the step that the piece is made of; 0: it is no piece
    last: int = 0
    as_ever: int = 0  # so many of its calls ran as if it were not captured; arrives later


class Lack(StrEnum):
    """What a captured step did not do."""

    REPLAYED = "not replayed"
    PIECE = "cut here"  # this line runs as ever, what stands around it is replayed
    FITTED = "recorded anew"  # a guard did not hold
    FUSED = "not fused"
    TOLD = "not replayed while recorded"


@table("missed")
class Missed(Row):
    """Why a captured step, or a piece of it, ran as ever or was recorded anew."""

    id: int
    captured: CapturedId = NONE
    kind: Text = ""  # Lack
    reason: Text = ""
    stack: StackId = NONE  # the line it was at, where one is known
    t: Ns = 0  # when it was noted


@table("plan")
class Plan(Row):
    """Calls on arrays that are made instead of a step, where its guards hold."""

    id: int
    captured: CapturedId = NONE
    before: PlanId = NONE  # the same plan, before its calls were fused
    guards: JsonList = ""  # what is looked at before each replay
    eager: Ns = NONE  # how long the step took when it and the plan were compared
    watched: bool = False  # which was while this was recorded
    t: Ns = 0


@table("plan_call")
class PlanCall(Row):
    """One call of a plan, in order."""

    id: int
    plan: PlanId = NONE
    label: Text = ""  # of the operation, or of the node whose gradient it computes
    phase: int = 0  # Phase
    stack: StackId = NONE
    reads: Ints = ()  # numbers of buffers
    makes: Ints = ()
    kernel: int = NONE  # calls with the same number are one compiled loop
    formula: Text = ""  # what that loop computes here of each element
    op: OpId = NONE  # the call it is in, in the step that is the template of replays
    node: NodeId = NONE  # or the node


@table("buffer")
class Buffer(Row):
    """One array of a plan."""

    id: int
    plan: PlanId = NONE
    number: int = 0
    shape: Ints = ()
    dtype: Text = ""
    bytes: int = 0
    role: Text = ""  # argument, state, gradient, constant, made, result
    tensor: TensorId = NONE  # a state, the leaf of a gradient, or the first argument
    name: Text = ""


@table("replay")
class Replay(Row):
    """One replay of a plan.

    Its calls and nodes are those of `template` (the first number of the step that was recorded),
    with ids that are higher by `shift`. Times of pieces were measured; inside a piece that is
    fused, the times of calls and nodes are shares of it, as they had them in the template.
    """

    id: int
    plan: PlanId = NONE
    step: StepId = NONE
    thread: ThreadId = NONE
    template: int = 0
    many: int = 0  # so many ids there are, from template + shift on
    shift: int = 0
    begin: Ns = 0
    end: Ns = 0
    pieces: Ints = ()  # the first call of each piece: its place among the plan's calls
    ends: Ints = ()  # when each piece was over, from `begin` on, in nanoseconds
    started: int = 0  # when the first of them began, likewise
