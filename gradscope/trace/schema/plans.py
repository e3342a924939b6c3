"""Captured steps: the plans that are replayed, each replay, and what was not captured.

The calls, nodes and events of a replay are rows of the usual tables. `replay` says which rows these
are, and how their times are known.
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
    """A captured function: a step, or a piece of a step that was split."""

    id: int
    name: Text = ""
    stack: StackId = NONE  # its first line
    whole: CapturedId = NONE  # the step it is a piece of
    first: int = 0  # first line of the piece within the step; 0: not a piece
    last: int = 0
    as_ever: int = 0  # number of its calls that ran uncaptured; arrives later


class Lack(StrEnum):
    """What did not happen to a captured step."""

    REPLAYED = "not replayed"
    PIECE = "cut here"  # this line runs uncaptured, the lines around it are replayed
    FITTED = "recorded anew"  # a guard did not hold
    FUSED = "not fused"
    TOLD = "not replayed while recorded"


@table("missed")
class Missed(Row):
    """Why a captured step, or a piece of it, ran uncaptured or was captured again."""

    id: int
    captured: CapturedId = NONE
    kind: Text = ""  # Lack
    reason: Text = ""
    stack: StackId = NONE  # the line concerned, if known
    t: Ns = 0  # when it was recorded


@table("plan")
class Plan(Row):
    """Calls on arrays that replace a step while its guards hold."""

    id: int
    captured: CapturedId = NONE
    before: PlanId = NONE  # the same plan, before its calls were fused
    guards: JsonList = ""  # conditions checked before each replay
    eager: Ns = NONE  # duration of the uncaptured step when it was compared with the plan
    watched: bool = False  # whether that comparison was recorded
    t: Ns = 0


@table("plan_call")
class PlanCall(Row):
    """One call of a plan, in order."""

    id: int
    plan: PlanId = NONE
    label: Text = ""  # name of the operation, or of the node whose gradient it computes
    phase: int = 0  # Phase
    stack: StackId = NONE
    reads: Ints = ()  # numbers of buffers
    makes: Ints = ()
    kernel: int = NONE  # calls with the same number are one compiled loop
    formula: Text = ""  # what that loop computes for each element
    op: OpId = NONE  # the call it belongs to, in the step that is the template of replays
    node: NodeId = NONE  # or the node it belongs to


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
    tensor: TensorId = NONE  # of a state, the leaf of a gradient, or the first argument
    name: Text = ""


@table("replay")
class Replay(Row):
    """One replay of a plan.

    Its calls and nodes are those of `template` (the first id of the step that was recorded), with
    ids that are higher by `shift`. Times of pieces were measured. Within a fused piece, calls and
    nodes have the same shares of its time as in the template.
    """

    id: int
    plan: PlanId = NONE
    step: StepId = NONE
    thread: ThreadId = NONE
    template: int = 0
    many: int = 0  # number of ids, from template + shift on
    shift: int = 0
    begin: Ns = 0
    end: Ns = 0
    pieces: Ints = ()  # the first call of each piece: its position among the plan's calls
    ends: Ints = ()  # end of each piece, in nanoseconds from `begin`
    started: int = 0  # start of the first piece, in nanoseconds from `begin`
