"""The words of formulas: one name for a kernel on arrays and the operation on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.calls.road_text import backward_text
from gradscope.runtime.core.generated.texts import build
from gradscope.runtime.core.kernels.compile_notices import own_work
from gradscope.runtime.core.rows.operation import REGISTRY


class Vocabulary:
    """The vocabulary of formulas: `w.cos(x)` is a kernel on arrays, an operation on tensors."""

    def __getattr__(self, name: str) -> Any:
        made = REGISTRY.get(name)
        if made is None:
            raise AttributeError(f"no operation is called '{name}'")
        scope = {"kernel": made.kernel, "function": made.road, "ndarray": np.ndarray}
        with own_work(f"compiles {made.name}"):
            label = f"{made.name} in a formula"
            word = build(
                name, backward_text.word(made.plan), scope, made.plan.arguments, label=label
            )
        self.__dict__[name] = word
        return word


w = Vocabulary()
