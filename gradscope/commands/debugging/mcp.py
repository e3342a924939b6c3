"""`gradscope mcp`: answers about finished traces for programs, by the Model Context Protocol."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gradscope.errors import MissingProgramError, how_to_install


def mcp(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of traces. Nothing else is read.")
    ] = Path(),
) -> None:
    """Serve traces to a program (Model Context Protocol)."""
    try:
        from gradscope.debug.mcp.serve import serve
    except ImportError:
        wanted = "a newer version of the package mcp" if find_spec("mcp") else "the package mcp"
        raise MissingProgramError(
            f"gradscope mcp needs {wanted}: {how_to_install('gradscope-trace[mcp]')}"
        ) from None
    serve(folder)
