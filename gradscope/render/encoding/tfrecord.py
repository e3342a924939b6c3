"""TFRecord, the frames of TensorFlow's files: length, checksum, bytes, checksum."""

from __future__ import annotations

from functools import cache
from struct import pack

POLYNOMIAL = 0x82F63B78
"""Of Castagnoli's checksum, CRC-32C, its bits the other way round."""
MASK = 0xA282EAD8
"""What is added to a checksum that is stored, so that one of it is not of its own bytes."""


def record(content: bytes) -> bytes:
    """One record of a file."""
    length = pack("<Q", len(content))
    return length + pack("<I", _masked(length)) + content + pack("<I", _masked(content))


def _masked(content: bytes) -> int:
    checksum = crc32c(content)
    return ((checksum >> 15 | checksum << 17) + MASK) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """Castagnoli's checksum; appendix B.4 of RFC 3720 gives examples."""
    table, value = _table(), 0xFFFFFFFF
    for byte in content:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return tuple(found)
