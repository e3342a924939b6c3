"""Measures text by a table of advance widths, without installed fonts."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from unicodedata import combining, east_asian_width


class Style(Enum):
    """The style of a line of text: its size, whether it is bold, whether it is monospaced."""

    HEADING = (16.0, True, False)
    TITLE = (12.5, True, False)
    FRAME = (11.0, True, False)
    PLAIN = (10.0, False, False)
    STRONG = (10.0, True, False)
    CODE = (9.5, False, True)
    LABEL = (9.5, False, False)
    STUB = (14.0, False, False)

    def __init__(self, size: float, bold: bool, fixed: bool) -> None:  # noqa: FBT001
        self.size = size
        self.bold = bold
        self.fixed = fixed

    @property
    def height(self) -> float:
        """The height of a line, with the space to the next."""
        return round(self.size * 1.32, 1)


PLAIN = (
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278),
    *(556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556),
    *(1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778),
    *(667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556),
    *(333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556),
    *(556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584),
)
"""Advance widths of Helvetica, Arial and Liberation Sans, in thousandths of the size, from the
space on."""
BOLD = (
    *(278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278),
    *(556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611),
    *(975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778),
    *(667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556),
    *(333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611),
    *(611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584),
)
FIXED = 602
"""Largest advance width of Menlo, Consolas and DejaVu Sans Mono."""
OTHERS = {"·": 278, "–": 556, "µ": 576, "×": 584}
UNKNOWN = 800
"""Assumed advance width of letters in other scripts, whose fonts are unknown."""
SPARE = 1.03
"""Factor for replacement fonts, which may be a little wider."""


@lru_cache(1 << 16)  # each line of a box is measured several times
def width_of(text: str, style: Style) -> float:
    """The largest width of a line of text, in pixels."""
    known = _KNOWN[style]
    return round(sum([known[letter] for letter in text]) * style.size * SPARE / 1000, 1)


class _Advances(dict[str, int]):
    """The advance of each letter, computed when it first occurs."""

    def __init__(self, style: Style) -> None:
        super().__init__()
        self._style = style

    def __missing__(self, letter: str) -> int:
        self[letter] = found = _advance(letter, self._style)
        return found


_KNOWN = {style: _Advances(style) for style in Style}


def _advance(letter: str, style: Style) -> int:
    if " " <= letter <= "~":
        return FIXED if style.fixed else (BOLD if style.bold else PLAIN)[ord(letter) - 32]
    if letter in OTHERS and not style.fixed:
        return OTHERS[letter]
    if combining(letter):
        return 0
    if east_asian_width(letter) in "WF":
        return 1040
    return UNKNOWN if letter.isalpha() else 1000


def fitting(text: str, style: Style, width: float) -> str:
    """The text, cut at the end with an ellipsis if it is wider."""
    if width_of(text, style) <= width:
        return text
    kept = len(text)
    while kept and width_of(f"{text[:kept]}…", style) > width:
        kept -= 1
    return f"{text[:kept]}…"


def ending(text: str, style: Style, width: float) -> str:
    """The same, cut at the left, because the end of a path is more important."""
    if width_of(text, style) <= width:
        return text
    begin = 1
    while begin < len(text) and width_of(f"…{text[begin:]}", style) > width:
        begin += 1
    return f"…{text[begin:]}"
