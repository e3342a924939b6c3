"""Text in terminal cells: fitted to a width, in characters that can be shown."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Span, Text

from gradscope.render.text import visible

ASCII = str.maketrans(
    {
        "…": "..",
        "·": "-",
        "µ": "u",
        "×": "x",
        "−": "-",
        "→": "->",
        "∞": "inf",
        "√": "sqrt",
        "–": "-",
        "≤": "<=",
        "‖": "|",
        "⋯": "...",
    }
)


@dataclass(frozen=True, slots=True)
class Charset:
    """The characters that pictures are drawn with."""

    plain: bool
    run: str  # a column that is busy
    some: str  # a column that is busy for less than half
    wait: str
    idle: str
    hook: str
    accumulate: str
    levels: str  # a queue's length, from low to high
    rule: str
    left: str
    right: str

    def text(self, text: str, limit: int = 400) -> str:
        """A program's text, safe to print, in characters of this set."""
        seen = visible(text, limit)
        if not self.plain:
            return seen
        return seen.translate(ASCII).encode("ascii", "backslashreplace").decode()

    def fit(self, text: str, width: int, *, right: bool = False) -> str:
        """The text in exactly this many cells: cut with an ellipsis, or padded."""
        if len(text) <= width and text.isascii() and text.isprintable():  # as most texts are
            return text.rjust(width) if right else text.ljust(width)
        text = self.text(text)
        room = width - cell_len(text)
        if room >= 0:
            return " " * room + text if right else text + " " * room
        ellipsis = self._ellipsis
        if width <= len(ellipsis):
            return ellipsis[:width]
        return set_cell_size(text, width - len(ellipsis)) + ellipsis

    def fit_end(self, text: str, width: int) -> str:
        """The text in at most this many cells, cut from the left."""
        if len(text) <= width and text.isascii() and text.isprintable():
            return text
        text = self.text(text)
        if cell_len(text) <= width:
            return text
        ellipsis = self._ellipsis
        while text and cell_len(text) > width - len(ellipsis):
            text = text[1:]
        return (ellipsis + text)[: max(width, 0)]

    def fit_numbered(self, text: str, width: int) -> str:
        """The text in exactly this many cells; if cut, the number after # is kept."""
        name, sign, number = text.rpartition("#")
        end = sign + number
        if not number.isdigit() or cell_len(self.text(text)) <= width or len(end) + 4 > width:
            return self.fit(text, width)
        return self.fit(name, width - len(end)) + end

    @property
    def _ellipsis(self) -> str:
        return ".." if self.plain else "…"


UNICODE = Charset(
    plain=False,
    run="█",
    some="▌",
    wait="░",
    idle=" ",
    hook="◆",
    accumulate="▲",
    levels="▁▂▃▄▅▆▇█",
    rule="─",
    left="├",
    right="┤",
)
PLAIN = Charset(
    plain=True,
    run="#",
    some=":",
    wait=".",
    idle=" ",
    hook="*",
    accumulate="^",
    levels="123456789+",
    rule="-",
    left="|",
    right="|",
)


def can_show(encoding: str | None) -> bool:
    """Whether text in this encoding can hold the characters of UNICODE."""
    try:
        "█▌░◆▲▁µ…".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def line(*parts: str | tuple[str, str]) -> Text:
    """One line out of texts, each with a style or without."""
    words, spans, at = [], [], 0
    for part in parts:
        text, style = (part, "") if isinstance(part, str) else part
        words.append(text)
        if style and text:
            spans.append(Span(at, at + len(text), style))
        at += len(text)
    return Text("".join(words), no_wrap=True, end="", spans=spans)


def wrapped(charset: Charset, text: str, width: int) -> list[str]:
    """The text in lines of at most this many cells, broken between words."""
    lines = [""]
    for word in charset.text(text, 4_000).split(" "):
        for piece in _pieces(word, width):
            joined = f"{lines[-1]} {piece}" if lines[-1] else piece
            if cell_len(joined) <= width:
                lines[-1] = joined
            else:
                lines.append(piece)
    return lines


def _pieces(word: str, width: int) -> list[str]:
    """A word in pieces that fit; nearly always the word."""
    pieces = [""]
    if cell_len(word) <= width:
        return [word]
    for character in word:
        if cell_len(pieces[-1] + character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces
