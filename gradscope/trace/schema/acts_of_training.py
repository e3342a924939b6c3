"""Acts of optimizers, schedules and generators, and what was found wrong while a program ran."""

from __future__ import annotations

import math

from gradscope.trace.schema.acts import ActFacts, act
from gradscope.trace.schema.declare import NONE, Floats, Ints, Text, Texts

# Optimizers and schedules -----------------------------------------------------------------------


@act("optimizer")
class OptimizerAct(ActFacts):
    """An optimizer was built, or met for the first time. The lists have a number for each group."""

    type: Text = ""
    before: bool = False  # it was there before the recording
    lr: Floats = ()  # NaN, here and below: no number, or the group has none
    weight_decay: Floats = ()
    momentum: Floats = ()
    many: Ints = ()  # tensors


@act("param_group")
class ParamGroupAct(ActFacts):
    """A group was added to an optimizer."""

    lr: float = math.nan
    weight_decay: float = math.nan
    momentum: float = math.nan
    many: int = 0
    instead: bool = False  # a step found other tensors in a list that was there


@act("step")
class StepAct(ActFacts):
    """An optimizer stepped; tensors: parameters without .grad.

    `moved` and `size` have a number for each parameter, in steps that were looked at.
    """

    lr: Floats = ()  # of each group
    weight_decay: Floats = ()  # likewise, where it has changed
    none: int = 0  # how many parameters had no .grad
    many: int = 0  # how many there are
    moved: Floats = ()  # norm of what was added; NaN: not seen, or not finite
    size: Floats = ()  # norm of the parameter before
    grad: Floats = ()  # norm of the gradient; at level engine
    alike: Ints = ()  # which matrices held one number
    alike_to: Floats = ()  # and that number
    random: int = NONE  # a digest of the state that random numbers follow from; from level values


@act("zero_grad")
class ZeroGradAct(ActFacts):
    """The gradients of an optimizer or a module were cleared."""

    set_to_none: bool = False


@act("schedule")
class ScheduleAct(ActFacts):
    """A schedule of learning rates was built."""

    type: Text = ""
    mode: Text = ""  # min, max: which way what it watches gets better


@act("schedule_step")
class ScheduleStepAct(ActFacts):
    """A schedule stepped."""

    lr: Floats = ()  # afterwards
    type: Text = ""
    watched: bool = False  # it was given something to watch
    metric: float = math.nan  # that, as a number


@act("clip")
class ClipAct(ActFacts):
    """Gradients were clipped."""

    by: Text = ""
    max: float = math.nan
    norm: float = math.nan  # that was found; NaN: it could not be read


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


# Randomness, checkpoints and what went wrong -----------------------------------------------------


@act("checkpoint")
class CheckpointAct(ActFacts):
    """A part of a forward was checkpointed."""

    reentrant: bool = False  # unless use_reentrant=False was given
    keeps_random: bool = False
    random: int = NONE  # as of a step, before it
    drew: Texts = ()  # whose random numbers its forward took: torch, random, numpy


@act("seed")
class SeedAct(ActFacts):
    """A generator was seeded."""

    seed: Text = ""  # the integer; empty: it was none, or was not given
    whose: Text = ""  # random, numpy, generator (one that the program made); empty: the engine's
    again: bool = False  # it had a seed before
    by: Text = ""  # what brings back, or keeps, the state of before


@act("warning")
class WarningAct(ActFacts):
    """A warning was shown."""

    category: Text = ""
    text: Text = ""


@act("not_finite")
class NotFiniteAct(ActFacts):
    """A NaN or an Inf was seen; the first of each line that reads one, and once of an optimizer."""

    value: Text = ""  # NaN, Inf
    what: Text = ""  # read, parameters, gradients (of an optimizer; at the end: that none holds)
    by: Text = ""  # of read: what read it
    history: bool = False  # of read: it had one
    made: int = NONE  # and when, or with which sequence_nr, its node was made
    many: int = 0  # parameters that were looked at
    when: Text = ""  # before (the first step), step, end


@act("read")
class ReadAct(ActFacts):
    """A line that read numbers with a history; noted at the end."""

    by: Text = ""
    first: Floats = ()  # up to four
    last: float = math.nan
    times: int = 0


@act("function")
class FunctionAct(ActFacts):
    """What was found of a custom Function; stack: lines of its backward or forward, then the call.

    `found` is agrees, deviates, straight-through, not checked, writes (into a gradient that it was
    given) or output-on-ctx.
    """

    type: Text = ""
    calls: int = 0
    found: Text = ""
    input: Text = ""  # of forward: the name of the one whose gradient it is
    times: float = math.nan  # of deviates: how many times too large
    off: float = math.nan  # of deviates: by how much
    returned: Text = ""
    why: Text = ""  # not checked
    name: Text = ""  # of output-on-ctx: the attribute's
