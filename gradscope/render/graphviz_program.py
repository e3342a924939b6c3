"""Runs Graphviz's `dot`, where it is installed, for as long as is sensible."""

from __future__ import annotations

import shutil
import subprocess

from gradscope.errors import MissingProgramError, RenderingError
from gradscope.render.formats.dot import write
from gradscope.render.theme import Theme
from gradscope.scene.picture import GraphScene

TIMEOUT_SECONDS = 60

INSTALL = "apt-get install graphviz, brew install graphviz or winget install graphviz"


def has_dot() -> bool:
    """Whether the program is installed."""
    return shutil.which("dot") is not None


def draw(scene: GraphScene, theme: Theme, output: str) -> bytes:
    """The picture in one of dot's output formats: "svg", "png", "pdf"."""
    program = shutil.which("dot")
    if program is None:
        raise MissingProgramError(
            f"{output} pictures are drawn by Graphviz's program `dot`, which is not installed; "
            f"install it ({INSTALL}) or use -f dot"
        )
    try:
        done = subprocess.run(  # noqa: S603  a fixed program with fixed arguments
            [program, f"-T{output}"],
            input=write(scene, theme),
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
    return done.stdout
