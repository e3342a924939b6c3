"""How an answer is written down: as short as a person can still review it, and as JSON holds it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.runtime.oracle import array_of, is_tensor

DIGITS = 8
WHOLE = 12
"""So many numbers of a tensor are written out; of more, the first few and three sums over all."""
FIRST = 3


def written_down(answer: Any) -> Any:
    """An answer as JSON holds it."""
    if is_tensor(answer):
        return {f"{plain(answer.dtype)}{list(answer.shape)}": values_of(array_of(answer))}
    if isinstance(answer, np.ndarray):
        return {f"{answer.dtype}{list(answer.shape)}": values_of(answer)}
    if isinstance(answer, dict):
        return {str(key): written_down(each) for key, each in answer.items()}
    if isinstance(answer, list | tuple):
        return [written_down(each) for each in answer]
    if isinstance(answer, bool | str | None):
        return plain(answer) if isinstance(answer, str) else answer
    if isinstance(answer, int | float | np.number):
        return number(answer)
    return plain(answer)


def plain(value: Any) -> str:
    """Its text; our names are those of PyTorch."""
    return str(value).replace("gradscope.runtime", "torch").removeprefix("torch.")


def values_of(array: np.ndarray[Any, Any]) -> Any:
    if array.size <= WHOLE:
        return [number(each) for each in array.reshape(-1).tolist()]
    flat = array.reshape(-1)
    return {"first": [number(each) for each in flat[:FIRST].tolist()], "sums": sums(flat)}


def sums(flat: np.ndarray[Any, Any]) -> list[Any]:
    """How large the numbers are, and two sums in which a wrong one, or two exchanged, are seen.

    What is no finite number counts by where it stands.
    """
    if flat.dtype.kind == "c":
        flat = np.stack([flat.real, flat.imag]).reshape(-1)
    values = flat.astype(np.float64)
    odd = ~np.isfinite(values)
    where = np.flatnonzero(odd)
    values = np.where(odd, 0.0, values)
    weights = 1 + np.sin(np.arange(values.size) * 1.7)
    found = [number(np.abs(values).sum()), number(values.sum()), number((values * weights).sum())]
    return [*found, f"{where.size} odd at {where[:4].tolist()}"] if where.size else found


def number(value: Any) -> Any:
    """A number with as many digits as are compared; what JSON cannot hold as text."""
    if isinstance(value, complex):
        return [number(value.real), number(value.imag)]
    if isinstance(value, bool | int | np.integer | np.bool_):
        return int(value) if not isinstance(value, bool | np.bool_) else bool(value)
    short = float(f"{float(value):.{DIGITS}g}")
    return short if np.isfinite(short) else str(short)
