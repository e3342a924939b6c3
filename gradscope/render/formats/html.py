"""HTML: one page to walk through a backward in, offline."""

from __future__ import annotations

from gradscope.render.formats import Drawn, Format
from gradscope.render.theme import Theme
from gradscope.render.viewer.page import page
from gradscope.scene.readable import plural
from gradscope.scene.viewer.text_columns import ViewerScene


def write(scene: ViewerScene, theme: Theme | None) -> Drawn:
    """The page. Without a theme it is light or dark as the reader's system is."""
    content = page(scene, theme.name if theme else "")
    if not scene.rows("nodes"):
        return Drawn(content, holds=f"{scene.rows('calls'):,} calls and data, no backward")
    holds = f"{plural(scene.rows('nodes'), 'node')}, {plural(scene.rows('events'), 'event')}"
    return Drawn(content, holds=holds)


FORMAT = Format(
    "html",
    ".html",
    "a page to walk through the backward in, offline",
    write,
    takes="page",
    endings=(".htm",),
)
