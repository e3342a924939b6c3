"""`torch.__version__`: a string that can be compared with other versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import eq, ge, gt, le, lt
from typing import Any

Key = tuple[tuple[int, ...], int, int]


class TorchVersion(str):
    """A version. `torch.__version__ >= "1.10"` compares numbers, as does a tuple of them."""

    __slots__ = ()

    def _compared(self, other: Any, how: Callable[[Any, Any], bool], as_texts: Any) -> bool:
        text = ".".join(map(str, other)) if isinstance(other, tuple | list) else str(other)
        mine, others = _key(self), _key(text)
        if mine is None or others is None:
            return bool(as_texts(text))
        return how(mine, others)

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, lt, super().__lt__)

    def __le__(self, other: Any) -> bool:
        return self._compared(other, le, super().__le__)

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, gt, super().__gt__)

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, ge, super().__ge__)

    def __eq__(self, other: object) -> bool:
        return self._compared(other, eq, super().__eq__)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


_STAGES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "": 0, "post": 1}


def _key(text: str) -> Key | None:
    """The sort key of a version: the numbers, the pre-release, the local part."""
    found = re.fullmatch(
        r"v?(\d+(?:\.\d+)*)[-_.]?(dev|alpha|beta|rc|post|a|b|)[-_.]?\d*(?:\+(.*))?", text.strip()
    )
    if found is None:
        return None
    numbers = [int(each) for each in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()  # 2.0 is 2
    return tuple(numbers), _STAGES[found[2]], int(found[3] is not None)
