"""Chooses the number of boxes so that a picture is legible on one screen."""

from __future__ import annotations

from dataclasses import replace

from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import GraphScene
from gradscope.scene.layout.measure import Style
from gradscope.scene.layout.picture import layout, scale_on_screen
from gradscope.trace.file.progress import tell
from gradscope.trace.trace import Trace

LEAST = 7.0
"""Least height of a legible title, in pixels."""
FEWER = (44, 32, 24, 16)
"""Numbers of boxes that are tried if titles are too small."""


def legible_scene(trace: Trace, options: GraphOptions) -> GraphScene:
    """The picture with the most boxes whose titles are legible when it is fitted to a screen."""
    tell("folding the graph")
    scene = graph_scene(trace, options)
    for limit in () if options.limit or options.everything else FEWER:
        tell("laying out the picture")
        if title_height(scene) >= LEAST:
            break
        scene = graph_scene(trace, replace(options, limit=limit))
    return scene


def title_height(scene: GraphScene) -> float:
    """The height of titles if the whole picture is fitted to a screen."""
    return Style.TITLE.size * scale_on_screen(layout(scene).placed)
