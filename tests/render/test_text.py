from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from gradscope.render.terminal.cells import PLAIN, UNICODE, can_show, wrapped
from gradscope.render.text import visible, visible_json
from gradscope.trace.text import JOINERS
from tests.render.hostile import names

CHARSETS = st.sampled_from([UNICODE, PLAIN])


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("MulBackward0", "MulBackward0"),
        ("a\nb\r\tc", r"a\nb\r c"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
        ("\u00a0\u2003x", "  x"),
        ("\ufffe\ud800", r"\ufffe\ud800"),
        ("\U000e0001", r"\U000e0001"),
        ("é 家 שלום", "é 家 שלום"),
        ("ها\u200cها", "ها\u200cها"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, seen: str) -> None:
    assert visible(text) == seen


@given(names)
def test_visible_text_holds_nothing_that_moves_the_cursor_or_turns_the_line(text: str) -> None:
    assert all(each.isprintable() or each in JOINERS for each in visible(text))


@given(names.filter(lambda name: name.isprintable() or name.isascii()))
def test_json_says_the_same_with_or_without_escapes(text: str) -> None:
    document = json.dumps([text, "\u202e\u2028\ufeff"], ensure_ascii=False)

    escaped = visible_json(document)

    assert json.loads(escaped) == json.loads(document)
    assert not set(escaped) & set("\u202e\u2028\ufeff\u2066\u200f\x9b")


@given(names, st.integers(0, 80), st.booleans(), CHARSETS)
def test_fitted_text_takes_exactly_the_cells_it_was_given(
    text: str, width: int, right: bool, charset: object
) -> None:
    assert charset in (UNICODE, PLAIN)
    fitted = (UNICODE if charset is UNICODE else PLAIN).fit(text, width, right=right)

    assert cell_len(fitted) == width


@given(names)
def test_plain_text_is_ascii(text: str) -> None:
    assert PLAIN.text(text).isascii()
    assert PLAIN.fit(text, 30).isascii()


@given(names, st.integers(2, 60))
def test_wrapped_text_keeps_to_its_width(text: str, width: int) -> None:
    assert all(cell_len(line) <= width for line in wrapped(UNICODE, text, width))


def test_text_is_wrapped_between_words() -> None:
    assert wrapped(UNICODE, "one two three fourteen", 9) == ["one two", "three", "fourteen"]
    assert wrapped(UNICODE, "abcdefghij kl", 4) == ["abcd", "efgh", "ij", "kl"]


def test_an_encoding_without_blocks_gets_plain_characters() -> None:
    assert can_show("utf-8")
    assert not can_show("cp1252")
    assert not can_show("ascii")
    assert not can_show("no such encoding")
    assert not can_show(None)
