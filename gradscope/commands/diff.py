"""`gradscope diff`: what changed between two traces, and where they first differ."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Plain, Width
from gradscope.commands.options.output import load, terminal, write_bytes
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
    law: Annotated[
        str | None,
        typer.Option(
            help="Show where a law is broken: determinism (two runs that should be the same), "
            "resume (a whole run, and one that was resumed from its checkpoint), accumulate "
            "(a run with whole batches, and one with parts of them) or compiled (a run without "
            "compilation, and one with it).",
            metavar="LAW",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write the result as JSON instead of text.")
    ] = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Show what changed between two traces."""
    if law is not None:
        from gradscope.commands.debugging.law import of_traces

        of_traces(law, (one, other), json=json, plain=plain, width=width)
        return
    from gradscope.analysis.likeness import Tolerance, compare
    from gradscope.render.reports.comparison_json import comparison_json
    from gradscope.render.views.differences import differences_lines
    from gradscope.scene.differences import differences_scene, told_apart

    out = terminal(plain=plain, width=width)
    traces = load(one), load(other)
    comparison = compare(*traces, Tolerance(rtol, atol))
    scene = differences_scene(comparison, traces, told_apart((one, other)))
    if json:
        write_bytes(f"{comparison_json(comparison, scene)}\n".encode())
    else:
        out.show(differences_lines(scene, out.width, out.charset))
    if comparison.differs:
        raise typer.Exit(ExitCode.FOUND)
