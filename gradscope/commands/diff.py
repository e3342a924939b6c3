"""`gradscope diff`: where two traces first differ, and how many differences there are."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Plain, Width
from gradscope.commands.options.output import load, terminal
from gradscope.errors import ExitCode


def diff(
    one: Annotated[Path, typer.Argument(metavar="TRACE", help="Trace file.")],
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="Trace file to compare with.")],
    rtol: Annotated[
        float,
        typer.Option(help="Relative tolerance of values.", min=0.0, metavar="X"),
    ] = 1e-4,
    atol: Annotated[
        float, typer.Option(help="Absolute tolerance of values.", min=0.0, metavar="X")
    ] = 1e-6,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Show where two traces first differ, and how much."""
    from gradscope.analysis.likeness import Tolerance, compare
    from gradscope.render.views.differences import differences_lines
    from gradscope.scene.differences import differences_scene, told_apart

    out = terminal(plain=plain, width=width)
    traces = load(one), load(other)
    comparison = compare(*traces, Tolerance(rtol, atol))
    scene = differences_scene(comparison, traces, told_apart((one, other)))
    out.show(differences_lines(scene, out.width, out.charset))
    if comparison.first is not None:
        raise typer.Exit(ExitCode.FOUND)
