"""PNG and PDF: a picture's SVG drawn by the package typst or, if that is missing, by Graphviz.

typst (Rust, one wheel for each system, no dependencies) writes both and contains fonts, so that it
works on machines without any. It is large, hence an extra.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from gradscope.errors import MissingProgramError, RenderingError, how_to_install
from gradscope.render import graphviz_program
from gradscope.render.formats import Drawn, format_called
from gradscope.render.theme import Theme
from gradscope.scene.graph.picture import GraphScene

SIZE = re.compile(rb'<svg [^>]*width="([0-9.]+)" height="([0-9.]+)"')
DOTS = 192.0
"""Dots per inch: two for each pixel of the SVG."""
IN_FONTS = {"⋯": "…"}
"""Signs that typst's fonts lack: with one, it draws the whole line in a wider font."""
MOST_DOTS = 20_000
"""Largest number of pixels of a side."""
PAGE = b'#set page(width: auto, height: auto, margin: 0pt)\n#image("picture.svg", width: %spt)'


def draw(scene: GraphScene, theme: Theme, output: str) -> Drawn:
    """The picture as "png" or "pdf"."""
    if find_spec("typst") is not None:
        return _by_typst(format_called("svg").write(scene, theme).content, output)
    if shutil.which("dot") is not None:
        return graphviz_program.draw(scene, theme, output)
    raise MissingProgramError(
        f"{output.upper()} needs the package typst ({how_to_install('typst')}) or Graphviz "
        f"({graphviz_program.INSTALL}); -f svg needs neither"
    )


def _by_typst(svg: bytes, output: str) -> Drawn:
    import typst  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415  an extra

    found = SIZE.search(svg)
    assert found
    width, height = float(found[1]), float(found[2])
    dots = min(DOTS, 96 * MOST_DOTS / max(width, height))
    for sign, known in IN_FONTS.items():
        svg = svg.replace(sign.encode(), known.encode())
    files = {"main.typ": PAGE % f"{width * 0.75:.2f}".encode(), "picture.svg": svg}
    try:
        compile_: Any = typst.compile  # also accepts files in memory, in spite of its types
        made = compile_(files, format=output, ppi=dots, timestamp=0)
    except typst.TypstError as error:
        raise RenderingError(f"typst cannot draw this picture: {error}") from None
    notes = tuple(_shrunk(width, height, dots)) if output == "png" else ()
    return Drawn(bytes(made), notes)


def _shrunk(width: float, height: float, dots: float) -> Iterator[str]:
    """The note for a bitmap that had to be shrunk below legibility."""
    if dots < 96:
        size = f"{width * dots / 96:,.0f} × {height * dots / 96:,.0f}"
        yield (
            f"the PNG has {size} pixels instead of {width:,.0f} × {height:,.0f}; for legible "
            "text, write an SVG or draw less of it (--around NODE, --step N, a smaller --limit)"
        )
