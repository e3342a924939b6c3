"""`gradscope audit`: how the gradients of several ranks were combined."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Plain, TracePaths, Width
from gradscope.commands.options.output import load, terminal
from gradscope.errors import UsageError


def audit(
    traces: TracePaths,
    step: Annotated[
        int | None,
        typer.Option(
            min=0, help="Step of the optimizer, from 0 [default: the first that was measured]."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="TRACE", help="Trace of the same training in one process, to compare with."
        ),
    ] = None,
    each: Annotated[
        bool, typer.Option("--all", help="Show each parameter in a row of its own.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Show how each parameter's gradient was combined across ranks: averaged, summed, or not."""
    from gradscope.analysis.ranks.audit import audits
    from gradscope.render.terminal.cells import line
    from gradscope.render.views.tables import table_lines
    from gradscope.scene.audit_table import audit_json, audit_table

    whole = load(traces)
    found = audits(whole, step, None if against is None else load(against))
    if not found:
        shown = "no step was measured" if step is None else f"step {step} was not measured"
        raise UsageError(
            f"{shown} on all ranks; a recording with --level values measures each step of an "
            "optimizer"
        )
    if as_json:
        sys.stdout.write(audit_json(whole, found))
        return
    out = terminal(plain=plain, width=width)
    for at, one in enumerate(found):
        if at:
            out.show([line("")])
        out.show(table_lines(audit_table(whole, one, each=each), out.width, out.charset))
