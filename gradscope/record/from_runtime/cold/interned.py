"""Values that repeat often in rows written in full: looked up instead of computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.tensors.tensor.geometry import strides_of


class ColdTexts(dict[str, int]):
    """Ids of texts of which a program has few: names of operations, slots, variables."""

    def __init__(self, intern: Callable[[str], int]) -> None:
        super().__init__()
        self._intern = intern

    def __missing__(self, text: str) -> int:
        found = self[text] = self._intern(text)
        return found


class Shapes(dict[Any, tuple[Any, ...]]):
    """Shape, strides in elements and dtype as columns, by an array's shape, strides and dtype."""

    def __init__(self, texts: ColdTexts) -> None:
        super().__init__()
        self._texts = texts

    def __missing__(self, key: Any) -> tuple[Any, ...]:
        shape, strides, dtype = key
        steps = tuple(step // dtype.itemsize for step in strides)
        if 0 in shape:  # NumPy leaves them undefined
            steps = strides_of(np.empty(shape, dtype))
        found = self[key] = (shape, steps, self._texts[dtypes.from_numpy(dtype).name])
        return found
