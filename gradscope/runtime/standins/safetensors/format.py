"""The file format: the length of the header, the header in JSON, and the bytes of all tensors."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]


class SafetensorError(Exception):
    """The file is not a safetensors file, or is damaged."""


_NAMED: Final[dict[str, np.dtype[Any]]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "I16": np.dtype(np.int16),
    "U16": np.dtype(np.uint16),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I32": np.dtype(np.int32),
    "U32": np.dtype(np.uint32),
    "F32": np.dtype(np.float32),
    "C64": np.dtype(np.complex64),
    "F64": np.dtype(np.float64),
    "I64": np.dtype(np.int64),
    "U64": np.dtype(np.uint64),
}
"""Names of dtypes in files. Tensors are ordered by dtype, the last one first."""

NAMES: Final = {dtype: name for name, dtype in _NAMED.items()}
_RANK: Final = {name: rank for rank, name in enumerate(_NAMED)}
_LENGTH: Final = struct.Struct("<Q")
_LONGEST: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """Offset, dtype and shape of one tensor."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int

    def of(self, data: Any) -> Array:
        """The tensor, as a view of the bytes of all tensors."""
        part = memoryview(data)[self.begin : self.end]
        return np.frombuffer(part, np.uint8).view(self.dtype).reshape(self.shape)


def written(arrays: Mapping[str, Array], metadata: Mapping[str, str] | None) -> list[Any]:
    """The parts of the file in order."""
    kinds = {name: NAMES[array.dtype] for name, array in arrays.items()}
    order = sorted(arrays, key=lambda name: (-_RANK[kinds[name]], name))
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    place = 0
    for name in order:
        end = place + arrays[name].nbytes
        shape = list(arrays[name].shape)
        header[name] = {"dtype": kinds[name], "shape": shape, "data_offsets": [place, end]}
        place = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    bytes = [np.ascontiguousarray(arrays[n]).reshape(-1).view(np.uint8).data for n in order]
    return [_LENGTH.pack(len(text)), text, *bytes]


def header_length(start: bytes, size: int) -> int:
    """The length of the header, from the first eight bytes of a file of this size."""
    if len(start) < _LENGTH.size:
        raise _damaged("header too small")
    length = int(_LENGTH.unpack(start)[0])
    if length > _LONGEST:
        raise _damaged("header too large")
    if length > size - _LENGTH.size:
        raise _damaged("invalid header length")
    return length


def read_header(text: bytes, size: int) -> tuple[dict[str, Entry], dict[str, str] | None]:
    """The entries and the metadata; `size` is the size of all tensors."""
    try:
        found = json.loads(text.decode())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise _damaged(f"invalid JSON in header: {error}") from None
    if not isinstance(found, dict):
        raise _damaged("invalid JSON in header: it is no object")
    metadata = found.pop("__metadata__", None)
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(each, str) for each in metadata.values())
    ):
        raise _damaged("invalid JSON in header: __metadata__ holds something else than texts")
    entries = {name: _entry(name, each) for name, each in found.items()}
    place = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != place:
            raise _damaged(f"invalid offset for tensor `{name}`")
        place = entry.end
    if place != size:
        raise _damaged("incomplete metadata, file not fully covered")
    return entries, metadata


def _entry(name: str, said: Any) -> Entry:
    match said:
        case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            raise _damaged(f"invalid JSON in header: the entry of `{name}` is {said!r}")
    if kind not in _NAMED:
        raise _damaged(
            f"invalid JSON in header: unknown variant `{kind}`, expected one of {_known()}"
        )
    if any(type(each) is not int or each < 0 for each in shape):
        raise _damaged(f"invalid JSON in header: the shape of `{name}` is {shape!r}")
    dtype = _NAMED[kind]
    if math.prod(shape) * dtype.itemsize != end - begin or begin < 0:
        raise _damaged("invalid shape, data type, or offset for tensor")
    return Entry(dtype, tuple(shape), begin, end)


def _known() -> str:
    return ", ".join(f"`{each}`" for each in _NAMED)


def _damaged(what: str) -> SafetensorError:
    return SafetensorError(f"Error while deserializing: {what}")
