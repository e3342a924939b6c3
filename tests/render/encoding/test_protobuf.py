"""Bytes as the descriptions of these formats give them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from gradscope.render.encoding.protobuf import double, fixed64, integer, text, varint, varints
from gradscope.render.encoding.tfrecord import crc32c, record


def test_fields_are_written_as_the_guide_to_the_encoding_gives_them() -> None:
    assert integer(1, 150) == bytes.fromhex("089601")
    assert text(2, "testing") == bytes.fromhex("120774657374696e67")
    assert integer(1, -2) == bytes.fromhex("08feffffffffffffffff01")
    assert fixed64(47, 1) == bytes.fromhex("f9020100000000000000")
    assert double(1, 1.0) == bytes.fromhex("09000000000000f03f")


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20))
def test_many_numbers_are_written_as_one_is(numbers: list[int]) -> None:
    assert varints(np.array(numbers, np.int64)) == [varint(number) for number in numbers]


def test_the_checksum_is_that_of_rfc_3720() -> None:
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283


def test_a_record_has_its_length_before_it_and_checksums_after_both() -> None:
    written = record(b"abc")

    assert (written[:8], written[12:15], len(written)) == (b"\3" + bytes(7), b"abc", 19)
