"""`gradscope check`: check that a trace obeys the rules of every trace."""

import typer

from gradscope.commands.options.arguments import Plain, TracePath, Width
from gradscope.commands.options.output import load, terminal
from gradscope.errors import ExitCode


def check(trace: TracePath, plain: Plain = False, width: Width = None) -> None:
    """Check that a trace is consistent."""
    from gradscope.render.views.tables import violation_lines
    from gradscope.trace.spec import check as violations_of

    out = terminal(plain=plain, width=width)
    found = violations_of(load(trace))
    out.show(violation_lines(found, out.width, out.charset))
    if found:
        raise typer.Exit(ExitCode.FOUND)
