"""Writes protocol buffers; see protobuf.dev/programming-guides/encoding.

A message is a sequence of fields, each a key (the number of the field and the wire type) and a
value.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import pack
from typing import Any

import numpy as np
from numpy.typing import NDArray

VARINT, FIXED64, LENGTH = 0, 1, 2
MASK = (1 << 64) - 1


@lru_cache(maxsize=4096)
def varint(number: int) -> bytes:
    """A number in seven bits per byte, lowest first; a negative one as its two's complement."""
    number &= MASK
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def varints(numbers: NDArray[Any]) -> list[bytes]:
    """Several numbers, each encoded like `varint`."""
    rest = np.asarray(numbers, np.int64).astype(np.uint64)
    digits = np.zeros((len(rest), 10), np.uint8)
    lengths = np.ones(len(rest), np.int64)
    for place in range(10):
        digits[:, place] = (rest & np.uint64(0x7F)).astype(np.uint8)
        rest >>= np.uint64(7)
        more = rest > 0
        digits[more, place] |= 0x80
        lengths += more
        if not more.any():
            break
    flat = digits.tobytes()
    return [
        flat[at : at + n] for at, n in zip(range(0, len(flat), 10), lengths.tolist(), strict=True)
    ]


@lru_cache(maxsize=1024)
def key(field: int, wire: int) -> bytes:
    """The key before a value."""
    return varint(field << 3 | wire)


def integer(field: int, value: int) -> bytes:
    """A field with an integer, a bool or an enum."""
    return key(field, VARINT) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """A field with a number in eight bytes."""
    return key(field, FIXED64) + pack("<Q", value & MASK)


def double(field: int, value: float) -> bytes:
    """A field with a double."""
    return key(field, FIXED64) + pack("<d", value)


def text(field: int, value: str) -> bytes:
    return message(field, value.encode())


def message(field: int, body: bytes) -> bytes:
    """A field with bytes, or with another message."""
    return key(field, LENGTH) + varint(len(body)) + body


def fields(parts: Iterable[bytes]) -> bytes:
    """A message with these fields."""
    return b"".join(parts)
