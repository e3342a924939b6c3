"""The program's lines around one of them: of its file, else those that the trace holds."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.debug.dap.sources import GAP, Sources
from gradscope.debug.screen.entries import PanelLine, heading
from gradscope.render.terminal.styles import BOLD, SOFT
from gradscope.trace.schema import Frame
from gradscope.trace.trace import Trace

LARGEST = 1 << 22
"""A file of more bytes is not read: no program's source is that large."""
HERE = "> "
ELSEWHERE = "  "


class ProgramLines:
    """Reads each file once, and only believes one that says what was recorded of it."""

    def __init__(self, trace: Trace) -> None:
        self._sources = Sources(trace)
        self._read: dict[str, list[str]] = {}

    def of(self, title: str, frames: tuple[Frame, ...], around: int) -> Iterator[PanelLine]:
        """The innermost line with so many before and after it, and where it was called from."""
        if not frames:
            return
        first, *others = frames
        text, note = self._text(first)
        yield PanelLine(f"{title} {first.file}:{first.line} in {first.function}{note}", BOLD)
        last = first.line + around
        wide = len(str(last))
        for number in range(max(first.line - around, 1), last + 1):
            if number in text:
                here = number == first.line
                code = f"{number:>{wide}}  {text[number].rstrip()}"
                yield PanelLine(code, BOLD if here else "", HERE if here else ELSEWHERE)
        for each in others:
            yield PanelLine(f"from {each.file}:{each.line} in {each.function}: {each.text}", SOFT)

    def _text(self, frame: Frame) -> tuple[dict[int, str], str]:
        """Lines by their numbers; and a word, if they are not all there."""
        lines = self._lines(frame.file)
        if frame.line <= len(lines) and lines[frame.line - 1].strip() == frame.text.strip():
            return dict(enumerate(lines, 1)), ""
        held = dict(self._sources.lines(frame.file))
        why = "the file has changed" if lines else "the file is not here"
        return {frame.line: frame.text or GAP} | held, f" ({why}: what was recorded)"

    def _lines(self, file: str) -> list[str]:
        if file not in self._read:
            path = self._sources.path(file)
            try:
                small = path.is_file() and path.stat().st_size <= LARGEST
                text = path.read_text("utf-8", "replace") if small else ""
            except (OSError, ValueError):  # ValueError: a zero byte in its name
                text = ""
            self._read[file] = text.split("\n") if text else []
        return self._read[file]


def nothing() -> PanelLine:
    """In the place of lines, where a trace has none."""
    return heading("no line of the program is known for this moment")
