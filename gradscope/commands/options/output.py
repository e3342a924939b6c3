"""What commands read and write: a trace, the terminal, a picture, a line on the standard error."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gradscope.errors import MissingProgramError, RenderingError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from gradscope.render.pictures import Target
    from gradscope.render.terminal.terminal import Terminal
    from gradscope.render.theme import Theme
    from gradscope.scene.graph.options import GraphOptions
    from gradscope.scene.graph.picture import GraphScene
    from gradscope.scene.viewer.scene import Earlier
    from gradscope.trace.trace import Trace


def load(path: Path, rank: int | None = None) -> "Trace":
    from gradscope.trace import load_save

    with working():
        if rank is None:
            return load_save.load(path)
        from gradscope.analysis.ranks.one_rank import only

        return only(load_save.load(path), rank)


def working() -> "AbstractContextManager[None]":
    """Show a person at a terminal how far the work in the block is, when it takes long."""
    from gradscope.render.terminal.progress import progress

    return progress(sys.stderr)


def drawn_for(trace: "Trace", options: "GraphOptions") -> "GraphScene":
    """The picture of a trace's graph."""
    from gradscope.scene.layout.legible import legible_scene

    with working():
        return legible_scene(trace, options)


def terminal(*, plain: bool, width: int | None) -> "Terminal":
    from gradscope.render.terminal.terminal import Terminal

    return Terminal(sys.stdout, plain=plain, width=width)


def write_picture(scene: "GraphScene", theme: "Theme", target: "Target") -> None:
    """Write the picture; where its format needs what is not there, write SVG and say so."""
    from gradscope.render.formats import format_called
    from gradscope.render.pictures import put

    if target.path is None:
        with working():
            drawn = target.format.write(scene, theme)
        write_bytes(drawn.content)
        say((*scene.notes, *drawn.notes))
        return
    try:
        with working():
            drawn = target.format.write(scene, theme)
    except (MissingProgramError, RenderingError) as error:
        if not target.format.needs_more:
            raise
        instead = target.path.with_suffix(".svg")
        put(instead, format_called("svg").write(scene, theme).content)
        raise type(error)(f"{error}; wrote {_shown(instead)} instead") from None
    put(target.path, drawn.content)
    boxes = f"{len(scene.boxes):,} {'box' if len(scene.boxes) == 1 else 'boxes'}"
    sys.stdout.write(f"wrote {_shown(target.path)}: {boxes}\n")
    say((*scene.notes, *drawn.notes))


def write_page(
    trace: "Trace",
    options: "GraphOptions",
    target: "Target",
    theme: str = "",
    earlier: "Earlier | None" = None,
) -> None:
    """Write the page of a trace. Without a theme it is light or dark as the reader's system is."""
    from gradscope.render.pictures import page_scene, put
    from gradscope.render.viewer.page import page

    with working():
        scene = page_scene(trace, options, earlier)
        content = page(scene, theme)
    if target.path is None:
        write_bytes(content)
        return
    put(target.path, content)
    size = f"{len(content) / 1e6:.1f} MB"
    said = f"{scene.rows('nodes'):,} nodes, {scene.rows('events'):,} events, {size}"
    if not scene.rows("nodes"):
        said = f"{scene.rows('calls'):,} calls and data, no backward, {size}"
    sys.stdout.write(f"wrote {safe(str(target.path))}: {said}\n")


def write_whole(trace: "Trace", options: "GraphOptions", target: "Target") -> None:
    """Write a file for another program, of all that happened or of the whole graph."""
    from gradscope.render.pictures import put, whole_scene
    from gradscope.scene.readable import byte_count

    with working():
        drawn = target.format.write(whole_scene(trace, options, target.format.takes), None)
    if target.path is None:
        write_bytes(drawn.content)
    else:
        put(target.path, drawn.content)
        size = byte_count(len(drawn.content))
        sys.stdout.write(f"wrote {_shown(target.path)}: {drawn.holds}, {size}\n")
    say(drawn.notes)


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
    """Text on one line, in characters that the standard error can show."""
    from gradscope.render.text import visible

    encoding = sys.stderr.encoding or "ascii"
    return visible(text, 2_000).encode(encoding, "backslashreplace").decode(encoding)
