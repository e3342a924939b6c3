"""A trace in a notebook: the page, or a picture where scripts are not allowed."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path

from gradscope.analysis.graph.selection import Selection
from gradscope.render.formats import format_called
from gradscope.render.pictures import page_scene, put
from gradscope.render.theme import LIGHT
from gradscope.render.viewer.page import page
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.layout.legible import legible_scene
from gradscope.scene.readable import plural
from gradscope.trace.load_save import load
from gradscope.trace.trace import Trace

HEIGHT = 640
LARGEST = 8 << 20
"""Largest size of a page in a notebook in bytes; larger ones are replaced by the picture."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of `gradscope.show`: notebooks display it; `save` writes the page."""

    page: bytes
    svg: str
    said: str

    def __repr__(self) -> str:
        return self.said

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page into an HTML file."""
        put(Path(path), self.page)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        found = {"image/svg+xml": self.svg, "text/plain": self.said}
        if len(self.page) > LARGEST:
            size = f"{len(self.page) / (1 << 20):.0f} MiB"
            found["text/plain"] += f"; its page has {size}, too large for a notebook: use save()"
            return found
        source = escape(self.page.decode(), quote=True)
        style = f"width:100%;height:{HEIGHT}px;border:1px solid #8885;border-radius:6px"
        found["text/html"] = (
            f'<iframe sandbox="allow-scripts" style="{style}" title="{escape(self.said)}" '
            f'srcdoc="{source}"></iframe>'
        )
        return found


def show(
    trace: Trace | str | PathLike[str],
    *,
    step: int | None = None,
    task: int | None = None,
    around: str | None = None,
) -> Shown:
    """Show a trace, or a trace file, in a notebook: the whole, or one step or task.

    `around`: the node, leaf, module or line to start at.
    """
    trace = trace if isinstance(trace, Trace) else load(trace)
    scene = page_scene(trace, GraphOptions(Selection(step, task, around)))
    picture = legible_scene(trace, GraphOptions(Selection(step, task)))
    svg = format_called("svg").write(picture, LIGHT).content.decode()
    nodes, events = plural(scene.rows("nodes"), "node"), plural(scene.rows("events"), "event")
    return Shown(page(scene), svg, f"<{scene.facts['script']}: {nodes}, {events}>")
