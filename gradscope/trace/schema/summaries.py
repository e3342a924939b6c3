"""Summaries of training steps: what is known of a step of which nothing else is recorded."""

from __future__ import annotations

import math

from gradscope.trace.schema.declare import NONE, Ns, Row, StepId, TensorId, table


@table("step_summary")
class StepSummary(Row):
    """The loss of one step, and the sizes of its gradients, parameters and update.

    A step has one whether it is recorded or left out (`--every`, `--steps`, `--max-bytes`), but
    only if it was measured: the first steps are, and then as many as take 1 % of the time of the
    program (0.2 % for those with a loss only). `meta.summary` says how many were. Norms are those
    of the finite elements.
    """

    step: StepId = NONE
    t: Ns = 0
    loss: float = math.nan  # the sum of the roots of its backwards; a GradScaler has scaled them
    roots: int = 0  # number of these; 0: the loss is not known
    parameters: int = 0  # number of measured ones; 0: only the loss was read
    unread: int = 0  # parameters whose values cannot be read
    gradient: float = math.nan  # the norm of all gradients, as the optimizer used them
    gradient_nan: int = 0  # elements of gradients
    gradient_inf: int = 0
    weight: float = math.nan  # the norm of all parameters after the step
    weight_bad: int = 0  # elements of parameters that are not finite
    update: float = math.nan  # norm of the update divided by that of the parameters before


@table("parameter_summary")
class ParameterSummary(Row):
    """One parameter in a step that was measured."""

    step: StepId = NONE
    tensor: TensorId = NONE
    gradient: float = math.nan  # its norm; NaN: there is none, or it cannot be read
    gradient_nan: int = 0
    gradient_inf: int = 0
    weight: float = math.nan  # its norm after the step
    weight_bad: int = 0
    update: float = math.nan  # norm of the update divided by that of the parameter before
    compared: int = 0  # elements that `update` was computed from; if not all: spread evenly
    bits: int = -1  # hash of its bytes after the step: equal for equal bytes; -1: not read


SUMMARIES = (StepSummary.TABLE, ParameterSummary.TABLE)
"""The tables that are empty with `--no-summary`."""
