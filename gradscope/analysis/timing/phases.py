"""Which operations belong to the forward pass, which to backward, and which to an optimizer."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from gradscope.trace.schema import NONE, Op, Phase
from gradscope.trace.trace import Trace


class Part(StrEnum):
    """What an operation is a part of."""

    FORWARD = "forward"
    BACKWARD = "backward"  # hooks, custom functions, create_graph, what is computed again
    OPTIMIZER = "optimizer"


def ops_of(trace: Trace, part: Part) -> np.ndarray:
    """For each operation of the trace, whether it belongs to this part."""
    ops = trace.table(Op)
    optimizer = ops["phase"] == Phase.OPTIMIZER
    backward = ~optimizer & ((ops["phase"] == Phase.BACKWARD) | (ops["task"] != NONE))
    match part:
        case Part.OPTIMIZER:
            return np.asarray(optimizer)
        case Part.BACKWARD:
            return np.asarray(backward)
        case Part.FORWARD:
            return np.asarray(~(optimizer | backward))
