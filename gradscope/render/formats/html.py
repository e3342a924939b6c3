"""HTML: a page to step through a backward, offline."""

from __future__ import annotations

from gradscope.render.formats import Drawn, Format
from gradscope.render.theme import Theme
from gradscope.render.viewer.page import page
from gradscope.scene.readable import plural
from gradscope.scene.viewer.text_columns import ViewerScene


def write(scene: ViewerScene, theme: Theme | None) -> Drawn:
    """Write the page. Without a theme it follows the reader's system."""
    content = page(scene, theme.name if theme else "")
    if not scene.rows("nodes"):
        return Drawn(
            content, holds=f"{scene.rows('calls'):,} calls and data, no backward", notes=scene.notes
        )
    holds = f"{plural(scene.rows('nodes'), 'node')}, {plural(scene.rows('events'), 'event')}"
    return Drawn(content, holds=holds, notes=scene.notes)


FORMAT = Format(
    "html",
    ".html",
    "a page to step through a backward, offline",
    write,
    takes="page",
    endings=(".htm",),
)
