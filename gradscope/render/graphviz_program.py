"""Runs Graphviz's `dot`, if it is installed, with a time limit."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

from gradscope.errors import MissingProgramError, RenderingError
from gradscope.render.formats import Drawn
from gradscope.render.formats.dot import source_of
from gradscope.render.theme import Theme
from gradscope.scene.graph.picture import GraphScene

TIMEOUT_SECONDS = 60

PNG = b"\x89PNG"
SCALED = re.compile(r"too large.*[Ss]caling by ([0-9.]*[0-9]) to fit")
"""The message of Graphviz about a bitmap larger than 32,767 pixels."""

INSTALL = "apt-get install graphviz, brew install graphviz or winget install graphviz"


def draw(scene: GraphScene, theme: Theme, output: str) -> Drawn:
    """The picture in one of dot's output formats: "png", "pdf"."""
    program = shutil.which("dot")
    if program is None:
        raise MissingProgramError(f"Graphviz's program `dot` is not installed ({INSTALL})")
    try:
        done = subprocess.run(  # noqa: S603  a fixed program with fixed arguments
            [program, f"-T{output}"],
            input=source_of(scene, theme),
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RenderingError(
            f"dot did not finish a picture of {len(scene.boxes):,} boxes within "
            f"{TIMEOUT_SECONDS} s; draw less of it with --around NODE, --step N or a smaller "
            "--limit"
        ) from None
    except OSError as error:
        raise RenderingError(f"cannot run {program}: {error.strerror}") from None
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise RenderingError(f"dot failed: {message or f'exit code {done.returncode}'}")
    return Drawn(done.stdout, tuple(_shrunk(done.stdout, done.stderr.decode(errors="replace"))))


def _shrunk(picture: bytes, said: str) -> Iterator[str]:
    """The note for a bitmap that Graphviz had to shrink."""
    scale = SCALED.search(said)
    if scale and picture.startswith(PNG):
        size = [int.from_bytes(picture[at : at + 4], "big") for at in (16, 20)]
        whole = [round(pixels / float(scale[1])) for pixels in size]
        yield (
            f"Graphviz shrank the PNG to {float(scale[1]):.0%} of its size, to {size[0]:,} × "
            f"{size[1]:,} pixels instead of {whole[0]:,} × {whole[1]:,}; for legible text, "
            "write an SVG or draw less of it (--around NODE, --step N, a smaller --limit)"
        )
