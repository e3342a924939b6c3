"""PNG, for everything else."""

from __future__ import annotations

from gradscope.render.formats import Drawn, Format
from gradscope.render.from_svg import draw
from gradscope.render.theme import Theme
from gradscope.scene.graph.picture import GraphScene


def write(scene: GraphScene, theme: Theme) -> Drawn:
    """The picture as PNG, two dots for each pixel."""
    return draw(scene, theme, "png")


FORMAT = Format(
    "png", ".png", "PNG, for everything else; needs typst or Graphviz", write, needs_more=True
)
