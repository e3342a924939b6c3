"""Source lines around one line: from its file, or else those in the trace."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.debug.dap.sources import GAP, Sources
from gradscope.debug.screen.entries import PanelLine, heading
from gradscope.render.terminal.styles import BOLD, SOFT
from gradscope.trace.schema import Frame
from gradscope.trace.trace import Trace

LARGEST = 1 << 22
"""Largest size of a source file in bytes."""
HERE = "> "
ELSEWHERE = "  "


class ProgramLines:
    """Reads source files, and uses those that match the recorded lines."""

    def __init__(self, trace: Trace) -> None:
        self._sources = Sources(trace)
        self._read: dict[str, list[str]] = {}

    def of(self, title: str, frames: tuple[Frame, ...], around: int) -> Iterator[PanelLine]:
        """The innermost line with `around` lines before and after it, and its callers."""
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
        """Lines by number, and a note if the file cannot be used."""
        lines = self._lines(frame.file)
        if frame.line <= len(lines) and lines[frame.line - 1].strip() == frame.text.strip():
            return dict(enumerate(lines, 1)), ""
        held = dict(self._sources.lines(frame.file))
        why = "the file has changed" if lines else "the file does not exist"
        return {frame.line: frame.text or GAP} | held, f" ({why}, recorded lines only)"

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
    """Shown instead of lines, where a trace has none."""
    return heading("no source line was recorded for this moment")
