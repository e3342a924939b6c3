"""Input and output of commands: traces, the terminal, pictures, lines on standard error."""

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gradscope.errors import MissingProgramError, RenderingError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from gradscope.render.formats import Drawn
    from gradscope.render.pictures import Shown, Target
    from gradscope.render.terminal.terminal import Terminal
    from gradscope.scene.graph.options import GraphOptions
    from gradscope.scene.viewer.scene import Earlier
    from gradscope.trace.trace import Trace


def load(
    paths: "Path | Sequence[Path]", rank: int | None = None, step: int | None = None
) -> "Trace":
    """The trace in a file, or those of several ranks as one; or only one of its ranks.

    `step`: of a large file, read only what a view of this step needs.
    """
    with working():
        of_step = step if rank is None else None
        traces = load_all([paths] if isinstance(paths, Path) else paths, of_step)
        trace = traces[0]
        if len(traces) > 1:
            from gradscope.analysis.ranks.merging.merge import merged

            trace = merged(traces)
        if rank is None:
            return trace
        from gradscope.analysis.ranks.merging.one_rank import only

        return only(trace, rank)


def load_all(paths: "Sequence[Path]", step: int | None = None) -> "list[Trace]":
    """The traces in these files, which may have much in common; of a single one, a step."""
    from gradscope.trace import load_save
    from gradscope.trace.file.scan import CommonBlocks

    if len(paths) == 1:
        return [load_save.load(paths[0], step=step)]
    common = CommonBlocks()
    return [load_save.load(path, common=common) for path in paths]


def of_all(paths: "Sequence[Path]") -> Path:
    """The path after which a file about all these traces is named."""
    first = paths[0]
    return first if len(paths) == 1 else first.with_name(re.sub(r"\.rank\d+", "", first.name))


def may_write_trace(output: Path, read: "Iterable[Path]", what: str) -> None:
    """Raise UsageError if writing a trace would overwrite an input, or another kind of file."""
    from gradscope.trace.load_save import is_trace

    if output.exists() and any(each.exists() and output.samefile(each) for each in read):
        raise UsageError(f"{output} is {what}; choose another name with -o")
    if output.is_file() and not is_trace(output):
        raise UsageError(f"{output} exists and is not a trace; choose another name with -o")


def working() -> "AbstractContextManager[None]":
    """Show the progress of the work in the block on a terminal, if it takes long."""
    from gradscope.render.terminal.progress import progress

    return progress(sys.stderr)


def terminal(*, plain: bool, width: int | None) -> "Terminal":
    from gradscope.render.terminal.terminal import Terminal

    return Terminal(sys.stdout, plain=plain, width=width)


def write(
    trace: "Trace",
    options: "GraphOptions",
    target: "Target",
    theme: str = "",
    earlier: "Earlier | None" = None,
) -> None:
    """Write a trace in a format; if that needs a missing package, write SVG and print a message."""
    from gradscope.render.formats import format_called
    from gradscope.render.pictures import drawn_as, put

    try:
        with working():
            scene, drawn = drawn_as(target.format, trace, options, theme, earlier)
    except (MissingProgramError, RenderingError) as error:
        if not target.format.needs_more or target.path is None:
            raise
        instead = target.path.with_suffix(".svg")
        put(instead, drawn_as(format_called("svg"), trace, options, theme)[1].content)
        raise type(error)(f"{error}; wrote {_shown(instead)} instead") from None
    if target.path is None:
        write_bytes(drawn.content)
    else:
        may_replace(target.path, drawn.content)
        put(target.path, drawn.content)
        sys.stdout.write(f"wrote {_shown(target.path)}: {_holds(scene, drawn)}\n")
    say(drawn.notes)


def may_replace(path: Path, content: bytes) -> None:
    """Raise UsageError if the file holds something that this command did not write."""
    with suppress(OSError):
        with path.open("rb") as file:
            before = file.read(HEAD)
        if before and not _alike(before, content[:HEAD]):
            raise UsageError(
                f"{_shown(path)} exists and was not written by this command; choose another name "
                "with -o"
            )


HEAD = 2_000
"""Number of first bytes of a file that show what it holds."""


def _alike(before: bytes, now: bytes) -> bool:
    if b"<html" in now:
        return MARK in before
    if now.isascii() or before.isascii():
        return before[:SAME] == now[:SAME]
    return True  # both are binary, and may begin with the length of what follows


SAME = 8
MARK = b"<title>gradscope</title>"


def _holds(scene: "Shown", drawn: "Drawn") -> str:
    from gradscope.scene.graph.picture import GraphScene
    from gradscope.scene.readable import byte_count, plural

    if isinstance(scene, GraphScene):
        return plural(len(scene.boxes), "box", "boxes")
    return f"{drawn.holds}, {byte_count(len(drawn.content))}"


def say(notes: tuple[str, ...]) -> None:
    for note in notes:
        sys.stderr.write(f"gradscope: {safe(note)}\n")


def write_bytes(content: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _shown(path: Path) -> str:
    return safe(str(path))


def safe(text: str) -> str:
    """Text on one line, in characters that standard error can show."""
    from gradscope.render.text import visible

    encoding = sys.stderr.encoding or "ascii"
    return visible(text, 2_000).encode(encoding, "backslashreplace").decode(encoding)
