"""Which operations belong to the forward pass, which to backward, and which to an optimizer."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from gradscope.trace.schema import NONE, Op, Phase
from gradscope.trace.trace import Trace


class ProgramPart(StrEnum):
    """What an operation is a part of."""

    FORWARD = "forward"
    BACKWARD = "backward"  # hooks, custom functions, create_graph, what is computed again
    OPTIMIZER = "optimizer"


def ops_of(trace: Trace, part: ProgramPart) -> np.ndarray:
    """For each operation of the trace, whether it belongs to this part."""
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
