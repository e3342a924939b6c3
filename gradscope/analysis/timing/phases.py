"""Assigns operations to the forward pass, to backward, or to an optimizer."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from gradscope.trace.schema import NONE, Op, Phase
from gradscope.trace.trace import Trace


class ProgramPart(StrEnum):
    """The part of a program that an operation belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"  # hooks, custom functions, create_graph, recomputation
    OPTIMIZER = "optimizer"


def ops_of(trace: Trace, part: ProgramPart) -> np.ndarray:
    """A mask of the operations that belong to this part."""
    ops = trace.table(Op)
    optimizer = ops["phase"] == Phase.OPTIMIZER
    backward = ~optimizer & ((ops["phase"] == Phase.BACKWARD) | (ops["task"] != NONE))
    match part:
        case ProgramPart.OPTIMIZER:
            return np.asarray(optimizer)
        case ProgramPart.BACKWARD:
            return np.asarray(backward)
        case ProgramPart.FORWARD:
            return np.asarray(~(optimizer | backward))
