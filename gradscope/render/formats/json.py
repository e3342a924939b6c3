"""JSON: the boxes, arrows and groups of a picture, for other programs."""

from __future__ import annotations

import orjson

from gradscope.render.formats import Drawn, Format
from gradscope.render.text import visible_json
from gradscope.render.theme import Theme
from gradscope.scene.graph.picture import GraphScene


def write(scene: GraphScene, theme: Theme) -> Drawn:  # noqa: ARG001  JSON has no colours
    """The scene field by field."""
    text = orjson.dumps(scene, option=orjson.OPT_INDENT_2).decode()
    return Drawn(visible_json(text).encode())


FORMAT = Format("json", ".json", "the picture as data, for other programs", write)
