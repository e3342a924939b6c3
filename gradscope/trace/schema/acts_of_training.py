"""Acts of optimizers, schedules and generators, and problems found while a program ran."""

from __future__ import annotations

import math

from gradscope.trace.schema.acts import ActFacts, act
from gradscope.trace.schema.declare import NONE, Floats, Ints, Ns, Text, Texts

# Optimizers and schedules -----------------------------------------------------------------------


@act("optimizer")
class OptimizerAct(ActFacts):
    """An optimizer was created, or first seen. The lists have one value per parameter group."""

    type: Text = ""
    before: bool = False  # it was created before the recording
    lr: Floats = ()  # NaN, here and below: not a number, or the group has none
    weight_decay: Floats = ()
    momentum: Floats = ()
    many: Ints = ()  # number of tensors


@act("param_group")
class ParamGroupAct(ActFacts):
    """A parameter group was added to an optimizer."""

    lr: float = math.nan
    weight_decay: float = math.nan
    momentum: float = math.nan
    many: int = 0
    instead: bool = False  # a step found other tensors in the list of an existing group


@act("step")
class StepAct(ActFacts):
    """An optimizer stepped. `tensors`: parameters without .grad.

    `moved` and `size` have one value per parameter, in steps that were measured.
    """

    lr: Floats = ()  # of each parameter group
    weight_decay: Floats = ()  # of each parameter group, if it has changed
    none: int = 0  # number of parameters without .grad
    many: int = 0  # number of parameters
    moved: Floats = ()  # norm of the update; NaN: not seen, or not finite
    size: Floats = ()  # norm of the parameter before the step
    grad: Floats = ()  # norm of the gradient; at level engine, and in programs of several ranks
    sums: Floats = ()  # sum of the gradient's elements, in programs of several ranks
    hashes: Ints = ()  # of the bits of the parameter before the step, likewise; NONE: not read
    alike: Ints = ()  # indices of matrices whose elements all had the same value
    alike_to: Floats = ()  # that value
    random: int = NONE  # digest of the state of the random generators; from level values on


@act("zero_grad")
class ZeroGradAct(ActFacts):
    """The gradients of an optimizer or a module were cleared."""

    set_to_none: bool = False


@act("schedule")
class ScheduleAct(ActFacts):
    """A learning rate scheduler was created."""

    type: Text = ""
    mode: Text = ""  # min or max: whether a lower or a higher metric is better


@act("schedule_step")
class ScheduleStepAct(ActFacts):
    """A learning rate scheduler stepped."""

    lr: Floats = ()  # after the step
    type: Text = ""
    watched: bool = False  # a metric was passed to it
    metric: float = math.nan  # that metric, as a number


@act("clip")
class ClipAct(ActFacts):
    """Gradients were clipped."""

    by: Text = ""
    max: float = math.nan
    norm: float = math.nan  # norm before clipping; NaN: it could not be read


@act("scale")
class ScaleAct(ActFacts):
    """A gradient scaler scaled a loss."""


@act("unscale")
class UnscaleAct(ActFacts):
    """A gradient scaler unscaled gradients."""


@act("scaled_step")
class ScaledStepAct(ActFacts):
    """A gradient scaler stepped."""

    skipped: bool = False


# Randomness, checkpoints and problems ------------------------------------------------------------


@act("checkpoint")
class CheckpointAct(ActFacts):
    """A part of a forward was checkpointed."""

    reentrant: bool = False  # unless use_reentrant=False was passed
    keeps_random: bool = False
    random: int = NONE  # as in `act.step`, before the forward
    drew: Texts = ()  # generators its forward drew from: torch, random, numpy


@act("recompute")
class RecomputeAct(ActFacts):
    """A recompute differed from the forward of its checkpoint (`of`).

    `tensors`: the parameters that were written between the two. If there are none, the calls that
    created nodes differ: the first one of each that does.
    """

    forward: Text = ""  # the call of the forward; empty: it had no more
    recompute: Text = ""  # the call of the recompute; empty: it had no more
    begin: Ns = 0  # when that of the forward began; 0: none


@act("seed")
class SeedAct(ActFacts):
    """A generator was seeded."""

    seed: Text = ""  # the integer; empty: not an integer, or not passed
    whose: Text = ""  # random, numpy, generator (one the program created); empty: the engine's
    again: bool = False  # it was seeded before
    by: Text = ""  # function that saves or restores the earlier state


@act("warning")
class WarningAct(ActFacts):
    """A warning was shown."""

    category: Text = ""
    text: Text = ""


@act("not_finite")
class NotFiniteAct(ActFacts):
    """A NaN or an Inf was seen: the first per line that reads one, and once per optimizer."""

    value: Text = ""  # NaN, Inf
    what: Text = ""  # read; parameters, gradients (of an optimizer; at the end: no optimizer's)
    by: Text = ""  # for read: the function that read it
    history: bool = False  # for read: the tensor had a graph
    made: int = NONE  # for read: creation time of its node, or its sequence_nr
    many: int = 0  # number of parameters that were checked
    when: Text = ""  # before (the first step), step, end


@act("read")
class ReadAct(ActFacts):
    """A line that read values of tensors with a graph; recorded at the end."""

    by: Text = ""
    first: Floats = ()  # up to four values
    last: float = math.nan
    times: int = 0


@act("function")
class FunctionAct(ActFacts):
    """Result of checking a custom Function. `stack`: its backward or forward, then the call.

    `found` is agrees, deviates, straight-through, not checked, writes (into a gradient it received)
    or output-on-ctx.
    """

    type: Text = ""
    calls: int = 0
    found: Text = ""
    input: Text = ""  # name of the input of forward to which the gradient belongs
    times: float = math.nan  # for deviates: factor by which it is too large
    off: float = math.nan  # for deviates: size of the deviation
    returned: Text = ""
    why: Text = ""  # for not checked: the reason
    name: Text = ""  # for output-on-ctx: name of the attribute


@act("node_check")
class NodeCheckAct(ActFacts):
    """A difference that `--check-nodes` found. `stack`: the call of the node, or of the hook.

    `found` is kernel, unsteady (likewise, and the node returned other bits when called twice),
    precision or hook. The other columns are those of the worst run.
    """

    found: Text = ""
    type: Text = ""  # of the node; for hook: the function that registered it
    node: int = NONE  # id of the node
    input: Text = ""  # the input to which the gradient belongs
    off: float = math.nan  # norm of the difference, relative to the gradient computed again
    allowed: float = math.nan  # for kernel, unsteady: the largest that is allowed
    times: float = math.nan  # factor, if the gradient is a multiple; NaN: it is not
    right: float = math.nan  # for precision: number of bits that are right
    bits: int = 0  # for precision: number of bits of the dtype
    runs: int = 0  # number of runs, or of calls of the hook, in which it was found


@act("row_shares")
class RowSharesAct(ActFacts):
    """The rows with the largest parts of the gradient of a weight. `stack`: the call of the node.

    With `--check-nodes`: one for each chosen run of a node that multiplied rows by a weight. The
    part of a row is the product of this row and the gradient of its result.
    """

    node: int = NONE  # id of the node
    many: int = 0  # number of rows
    largest: Ints = ()  # the rows with the largest parts, up to three, the largest first
    shares: Floats = ()  # of each, in the sum of the squared norms of all parts
