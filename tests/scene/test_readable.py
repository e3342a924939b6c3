from __future__ import annotations

import pytest

from gradscope.scene import readable as words
from gradscope.trace.schema import NONE


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (12_345, "12.3 µs"),
        (99_960, "100 µs"),
        (1_234_567, "1.23 ms"),
        (61_000_000_000, "61.0 s"),
        (4_000_000_000_000, "4,000 s"),
        (NONE, "?"),
    ],
)
def test_a_duration_has_three_digits_and_a_unit(ns: int, text: str) -> None:
    assert words.duration(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1 byte"), (1023, "1,023 bytes"), (1536, "1.50 KiB"), (3 << 30, "3.00 GiB")],
)
def test_bytes_are_counted_in_powers_of_two(count: int, text: str) -> None:
    assert words.byte_count(count) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (13, "13th"),
        (21, "21st"),
        (112, "112th"),
        (1_002, "1,002nd"),
    ],
)
def test_ordinals_read_as_people_say_them(number: int, text: str) -> None:
    assert words.ordinal(number) == text


def test_nouns_agree_with_their_number() -> None:
    assert words.plural(1, "node") == "1 node"
    assert words.plural(3_615, "node") == "3,615 nodes"
    assert words.plural(2, "leaf", "leaves") == "2 leaves"


def test_a_shape_reads_as_in_pytorch() -> None:
    assert words.shape((2, 3)) == "[2, 3]"
    assert words.shape(()) == "scalar"


def test_long_text_ends_in_an_ellipsis() -> None:
    assert words.shorten("abcdef", 6) == "abcdef"
    assert words.shorten("abcdefg", 6) == "abcde…"
