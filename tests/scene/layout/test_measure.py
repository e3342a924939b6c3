from __future__ import annotations

import pytest

from gradscope.scene.layout.measure import BOLD, PLAIN, Style, ending, fitting, width_of


def test_every_printable_letter_has_its_width() -> None:
    assert len(PLAIN) == len(BOLD) == 95


@pytest.mark.parametrize(
    ("text", "style", "width"),
    [
        ("", Style.PLAIN, 0.0),
        ("iii", Style.PLAIN, 6.9),
        ("WWW", Style.PLAIN, 29.2),
        ("ab", Style.CODE, 11.8),
        ("WW", Style.CODE, 11.8),
        ("家", Style.PLAIN, 10.7),
        ("e\u0301", Style.PLAIN, 5.7),
    ],
)
def test_text_is_as_wide_as_its_letters(text: str, style: Style, width: float) -> None:
    assert width_of(text, style) == width


def test_text_that_does_not_fit_ends_in_an_ellipsis() -> None:
    assert fitting("a short one", Style.CODE, 100) == "a short one"
    cut = fitting("a long one that does not fit", Style.CODE, 100)
    assert cut == "a long one that…"
    assert width_of(cut, Style.CODE) <= 100


def test_a_path_that_does_not_fit_keeps_its_end() -> None:
    assert ending("blocks.0.attention", Style.CODE, 200) == "blocks.0.attention"
    cut = ending("blocks.0.attention.qkv", Style.CODE, 100)
    assert cut.startswith("…")
    assert cut.endswith("attention.qkv")
    assert width_of(cut, Style.CODE) <= 100 < width_of(f"{cut}i", Style.CODE)
