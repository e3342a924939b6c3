"""Where two written answers differ: texts and whole numbers exactly, others as far as computed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

RELATIVE = {"float64": 1e-6, "float32": 2e-4, "float16": 1e-2, "bfloat16": 5e-2, "complex64": 2e-4}
ABSOLUTE = {"float64": 1e-8, "float32": 1e-5, "float16": 5e-3, "bfloat16": 3e-2, "complex64": 1e-5}
MISSING = "nothing"


def differences(
    found: Any, known: Any, tolerance: float = 1.0, where: str = "", dtype: str = "float64"
) -> Iterator[str]:
    """Each place where what was found is not what is known."""
    if isinstance(known, dict) and isinstance(found, dict):
        yield from _in_dicts(found, known, tolerance, where, dtype)
    elif isinstance(known, list) and isinstance(found, list):
        for place, (one, other) in enumerate(zip_longest(found, known, fillvalue=MISSING)):
            yield from differences(one, other, tolerance, f"{where}[{place}]", dtype)
    elif not alike(found, known, tolerance, dtype):
        yield f"{where or 'the answer'} is {found!r}, PyTorch's {known!r}"


def _in_dicts(
    found: dict[str, Any], known: dict[str, Any], tolerance: float, where: str, dtype: str
) -> Iterator[str]:
    if found.keys() != known.keys():
        yield f"{where or 'the answer'} has {list(found)}, PyTorch's {list(known)}"
        return
    for key, value in known.items():
        kind = key.partition("[")[0] if key.endswith("]") else dtype
        if isinstance(value, dict) and "sums" in value:
            yield from _of_sums(found[key], value, tolerance, f"{where}.{key}", size_of(key))
        else:
            yield from differences(found[key], value, tolerance, f"{where}.{key}".lstrip("."), kind)


def size_of(shape: str) -> int:
    """How many numbers a `float64[2, 3]` has."""
    return math.prod(int(size) for size in re.findall(r"\d+", shape.partition("[")[2]))


def _of_sums(
    found: dict[str, Any], known: dict[str, Any], tolerance: float, where: str, size: int
) -> Iterator[str]:
    """A sum is as exact as its parts; the first one says how large they are together."""
    dtype = where.rpartition(".")[2].partition("[")[0]
    large = max(abs(known["sums"][0]), abs(found["sums"][0]))
    room = 2 * tolerance * (RELATIVE.get(dtype, 1e-6) * large + ABSOLUTE.get(dtype, 1e-8) * size)
    pairs = zip(found["sums"][:3], known["sums"][:3], strict=True)
    if any(abs(a - b) > room for a, b in pairs) or found["sums"][3:] != known["sums"][3:]:
        yield f"{where}: sums are {found['sums']}, PyTorch's {known['sums']}"
    yield from differences(found["first"], known["first"], tolerance, f"{where}.first", dtype)


def alike(found: Any, known: Any, tolerance: float, dtype: str) -> bool:
    numbers = isinstance(found, int | float) and isinstance(known, int | float)
    if not numbers or isinstance(found, bool) or isinstance(known, bool):
        return bool(found == known)
    if isinstance(found, int) and isinstance(known, int):
        return found == known or found % 2**64 == known % 2**64  # PyTorch shows -1 as 2**64 - 1
    relative, absolute = RELATIVE.get(dtype, 1e-6), ABSOLUTE.get(dtype, 1e-8)
    return math.isclose(found, known, rel_tol=relative * tolerance, abs_tol=absolute * tolerance)
