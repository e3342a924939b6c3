"""Writes TFRecord, the frames of TensorFlow's files: length, checksum, bytes, checksum."""

from __future__ import annotations

from functools import cache
from struct import pack

POLYNOMIAL = 0x82F63B78
"""The polynomial of CRC-32C, with its bits reversed."""
MASK = 0xA282EAD8
"""Added to stored checksums, so that a checksum of data with checksums differs."""


def record(content: bytes) -> bytes:
    """One record of a file."""
    length = pack("<Q", len(content))
    return length + pack("<I", _masked(length)) + content + pack("<I", _masked(content))


def _masked(content: bytes) -> int:
    checksum = crc32c(content)
    return ((checksum >> 15 | checksum << 17) + MASK) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """The CRC-32C checksum; appendix B.4 of RFC 3720 has examples."""
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
