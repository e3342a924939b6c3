"""Encodes a column as JSON, and decodes it.

Numbers are written in whichever of these forms is short:

    [3, 1, 4]                               cell by cell
    7                                       all cells are equal
    {"first": 3, "by": [2, 2, 5]}           differences; `by` may itself be one number, or runs
    {"runs": [900, 100], "values": [0, 1]}  900 cells of 0, then 100 of 1
    {"values": [0.5, 0], "nan": [1]}        floats that JSON cannot write, by position:
                                            "nan", "inf" and "-inf"; all cells: {"float": "nan"}
    {"lengths": ..., "values": ...}         lists: the length of each cell, then all values
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gradscope.errors import UnreadableTraceError
from gradscope.trace.ragged import Array, Data, Integers, Ragged
from gradscope.trace.text import quoted

if TYPE_CHECKING:
    from gradscope.trace.schema.declare import Column

SPECIAL: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
SHORT_RUNS: Final = 8
"""Shortest average length of runs for which this form is used."""
SAMPLE: Final = 512


def encode(data: Data, *, explicit: bool = False) -> Any:
    """The column as an object for orjson; `explicit`: cell by cell, however long that is."""
    if isinstance(data, Ragged):
        return {
            "lengths": encode(data.lengths, explicit=explicit),
            "values": encode(np.ascontiguousarray(data.values), explicit=explicit),
        }
    if data.dtype.kind == "f":
        return _encode_floats(data, explicit=explicit)
    if data.dtype.kind == "O":
        return data.tolist()
    return _encode_integers(data.astype(np.int64, copy=False), explicit=explicit)


def _encode_integers(values: Integers, *, explicit: bool) -> Any:
    if explicit or not len(values):
        return np.ascontiguousarray(values)
    first = int(values[0])
    if first == values[-1] and (values == first).all():
        return first
    sample = _sample(values)
    changes = sample[1:] - sample[:-1]
    if _seldom(changes):
        return _encode_runs(values, values[1:] - values[:-1])
    steps = values[1:] - values[:-1]
    if steps[0] == steps[-1] and (steps == steps[0]).all():
        return {"first": first, "by": int(steps[0])}
    if _length(changes) < 0.9 * _length(sample):
        if _seldom(changes[1:] - changes[:-1]):
            return {"first": first, "by": _encode_runs(steps, steps[1:] - steps[:-1])}
        return {"first": first, "by": steps}
    return np.ascontiguousarray(values)


# The shortest form is chosen from a few cells: all forms are equivalent, and checking all cells for
# each form would take longer than writing them.


def _sample(values: Integers) -> Integers:
    """A few neighbouring cells."""
    start = max(len(values) // 2 - SAMPLE // 2, 0)
    return values[start : start + SAMPLE]


def _seldom(changes: Integers) -> bool:
    """Whether most of these are 0."""
    return int(np.count_nonzero(changes)) * SHORT_RUNS < len(changes) + 1


def _encode_runs(values: Integers, steps: Integers) -> dict[str, Integers]:
    starts = np.concatenate([[0], np.flatnonzero(steps) + 1])
    return {"runs": np.diff(starts, append=len(values)), "values": values[starts]}


def _length(values: Integers) -> float:
    """Approximate length of these numbers as text, in no particular unit."""
    few = values[:: len(values) // 64 + 1].astype(np.float64)
    return float(np.log2(np.abs(few) + 4.0).sum())


def _encode_floats(values: Array, *, explicit: bool) -> Any:
    bits = values.view(np.int64)
    if not explicit and len(values) and (bits == bits[0]).all():
        first = float(values[0])
        return first if math.isfinite(first) else {"float": str(first)}
    if np.isfinite(values).all():
        return np.ascontiguousarray(values)
    coded: dict[str, Any] = {"values": np.where(np.isfinite(values), values, 0.0)}
    for name, special in SPECIAL.items():
        positions = np.flatnonzero(np.isnan(values) if name == "nan" else values == special)
        if len(positions):
            coded[name] = positions
    return coded


def decode(coded: Any, rows: int, column: Column | None, room: int) -> Data:
    """Decode a column; its lists may hold `room` values. The caller has checked `rows`."""
    if isinstance(coded, dict) and "lengths" in coded:
        data: Data = _decode_ragged(coded, rows, column, room)
    elif column is not None and column.many:
        raise UnreadableTraceError("it should hold lists")
    elif column is None:
        data = _decode_unknown(coded, rows)
    elif column.interned:
        data = _decode_integers(coded, rows)
    else:
        data = DECODERS[column.type](coded, rows)
    if len(data) != rows:
        raise UnreadableTraceError(f"it has {len(data)} cells in a block of {rows} rows")
    return data


def _decode_ragged(coded: dict[str, Any], rows: int, column: Column | None, room: int) -> Ragged:
    if column is not None and not column.many:
        raise UnreadableTraceError("it should not hold lists")
    lengths = _decode_integers(coded["lengths"], rows)
    if len(lengths) != rows or (lengths < 0).any():
        raise UnreadableTraceError("the lengths of its lists are invalid")
    total = sum(lengths.tolist())  # in Python's integers, which do not overflow
    if total > room:
        raise UnreadableTraceError("its lists are too long for its line")
    decoder = _decode_unknown if column is None else DECODERS[column.stored]
    values = decoder(coded.get("values"), total)
    if len(values) != total or values.dtype.kind == "O":
        raise UnreadableTraceError("the lengths of its lists do not add up to its values")
    return Ragged.of_lengths(lengths, values)


def _decode_integers(coded: Any, rows: int) -> Integers:
    if type(coded) is int:
        return np.full(rows, _small(coded), np.int64)
    if isinstance(coded, list):
        return _plain_integers(coded)
    if isinstance(coded, dict) and "runs" in coded:
        return _decode_runs(coded, rows)
    if isinstance(coded, dict) and "first" in coded:
        by = coded.get("by")
        if isinstance(by, dict) and "first" in by:
            raise UnreadableTraceError("its differences are themselves written as differences")
        return _walk(_small(coded["first"]), _decode_integers(by, max(rows - 1, 0)))
    raise UnreadableTraceError("it should hold whole numbers")


def _walk(first: int, steps: Integers) -> Integers:
    values = np.empty(len(steps) + 1, np.int64)
    values[0] = first
    values[1:] = steps
    return np.cumsum(values, out=values)


def _decode_runs(coded: dict[str, Any], rows: int) -> Integers:
    runs, values = _plain_integers(coded["runs"]), _plain_integers(coded.get("values"))
    # Counted in Python's integers, which do not overflow, before anything is allocated.
    if len(runs) != len(values) or (runs < 0).any() or sum(runs.tolist()) != rows:
        raise UnreadableTraceError("its runs do not add up to its rows")
    return np.repeat(values, runs)


def _plain_integers(coded: Any) -> Integers:
    if not isinstance(coded, list) or not set(map(type, coded)) <= {int}:
        raise UnreadableTraceError("it should hold whole numbers")
    try:
        return np.array(coded, np.int64)
    except OverflowError:
        raise UnreadableTraceError("it holds a number of more than 64 bits") from None


def _small(number: Any) -> int:
    if type(number) is not int or not -(2**63) <= number < 2**63:
        raise UnreadableTraceError("it should hold whole numbers of 64 bits")
    return number


def _decode_booleans(coded: Any, rows: int) -> Array:
    if type(coded) is bool:
        return np.full(rows, coded)
    values = _decode_integers(coded, rows)
    if ((values != 0) & (values != 1)).any():
        raise UnreadableTraceError("it should hold 0 and 1")
    return values.astype(np.bool_)


def _decode_floats(coded: Any, rows: int) -> Array:
    if type(coded) in {int, float}:
        return np.full(rows, coded, np.float64)
    if isinstance(coded, list) and set(map(type, coded)) <= {int, float}:
        return np.array(coded, np.float64)
    if isinstance(coded, dict) and "float" in coded:
        return np.full(rows, _special(coded["float"]))
    if not isinstance(coded, dict) or not isinstance(coded.get("values"), list):
        raise UnreadableTraceError("it should hold numbers")
    values = _decode_floats(coded["values"], rows)
    for name, special in SPECIAL.items():
        positions = _plain_integers(coded.get(name, []))
        if ((positions < 0) | (positions >= len(values))).any():
            raise UnreadableTraceError(f"it has {name} at a row that does not exist")
        values[positions] = special
    return values


def _special(name: Any) -> float:
    if not isinstance(name, str) or name not in SPECIAL:
        raise UnreadableTraceError("it should hold numbers")
    return SPECIAL[name]


def _decode_texts(coded: Any, _rows: int) -> Array:
    if not isinstance(coded, list) or not set(map(type, coded)) <= {str}:
        raise UnreadableTraceError("it should hold text")
    values = np.empty(len(coded), object)
    values[:] = coded
    return values


def _decode_unknown(coded: Any, rows: int) -> Array:
    """A column only a newer gradscope knows. Its values show its type; 0 and 1 are integers."""
    coded = int(coded) if type(coded) is bool else coded
    sample = coded
    if isinstance(coded, list):
        kinds = set(map(type, coded))
        sample = "" if kinds == {str} else 0.0 if float in kinds else 0
    elif isinstance(coded, dict):
        sample = 0.0 if SPECIAL.keys() & coded.keys() or "float" in coded else 0
    if type(sample) not in DECODERS:
        raise UnreadableTraceError(f"it holds an unexpected value: {quoted(coded)}")
    return DECODERS[type(sample)](coded, rows)


DECODERS: Final = {
    int: _decode_integers,
    float: _decode_floats,
    bool: _decode_booleans,
    str: _decode_texts,
}
