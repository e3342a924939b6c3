"""Arguments of calls of the runtime that are not tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.record.notes.noted_arguments import (
    FLAT,
    INPUT,
    OPERAND,
    RESULT,
    VIEW_OF,
    NotedArguments,
    base_shape,
    is_option,
)
from gradscope.runtime.core.tensors.saved.saved_variable import SavedVariable
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

CONVOLUTION = "ConvolutionBackward0"


class RuntimeArguments(NotedArguments):
    """Reads nodes. Reading them through the names of the public API would be recorded."""

    def read(self, node: Any) -> None:
        """Read the arguments that a numbered node stores."""
        self.look(node, node.record_nr)

    def look(self, node: Any, number: int) -> None:
        """Read the arguments that a node stores."""
        found = {}
        for slot, kept in zip(node.slots, node._saved or (), strict=False):
            value = kept.tensor if isinstance(kept, SavedVariable) else kept
            if slot == OPERAND:
                found[slot] = _number(value)
            elif slot == INPUT and type(node).__name__ == CONVOLUTION:
                found[VIEW_OF] = base_shape(value) if isinstance(value, Tensor) else None
            elif slot == RESULT and type(node).__name__ in FLAT:
                if isinstance(kept, SavedVariable) and kept.array is not None:
                    self.add_results(number, kept.array)
            elif slot and is_option(slot):
                found[slot] = value
        self.add(number, found)


def _number(value: Any) -> object:
    """The value of a number argument, as short as its precision allows."""
    array = value._array if isinstance(value, Tensor) and not value.requires_grad else value
    if not isinstance(array, np.ndarray) or array.ndim:
        return None
    number = array.item()
    return float(str(array)) if isinstance(number, float) else number
