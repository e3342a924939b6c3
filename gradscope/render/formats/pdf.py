"""PDF, for print."""

from __future__ import annotations

from gradscope.render.formats import Drawn, Format
from gradscope.render.from_svg import draw
from gradscope.render.theme import Theme
from gradscope.scene.graph.picture import GraphScene


def write(scene: GraphScene, theme: Theme) -> Drawn:
    return draw(scene, theme, "pdf")


FORMAT = Format("pdf", ".pdf", "PDF, for print; needs typst or Graphviz", write, needs_more=True)
