"""What is unusual in the values that a module holds when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.record.acts.numbers.moved import seen
from gradscope.trace.schema import INITIAL_STATISTICS, PADDING_FILLED
from gradscope.watch.in_place.by_identity import attributes, registered


def state_of(module: Any, memory: Callable[[Any], memoryview | None]) -> str:
    """As in `RanAct.found`; "" for other modules, and for values that cannot be read."""
    own = attributes(module)
    padding = own.get("padding_idx")
    if type(padding) is int:
        weight = registered(module, "_parameters").get("weight")
        if weight is None or weight.dim() != 2 or not weight.is_contiguous():
            return ""
        values = seen(weight, memory)
        if values is None or not values.reshape(tuple(weight.shape))[padding].any():
            return ""
        return PADDING_FILLED
    buffers = registered(module, "_buffers")
    mean, var = buffers.get("running_mean"), buffers.get("running_var")
    if mean is None or var is None or own.get("training", True):
        return ""
    means, variances = seen(mean, memory), seen(var, memory)
    if means is None or variances is None or means.any() or (variances != 1).any():
        return ""
    return INITIAL_STATISTICS
