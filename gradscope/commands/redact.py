"""`gradscope redact`: a copy of a trace that can be shared."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import TracePath
from gradscope.commands.options.output import load, may_write_trace, safe, write


def redact(
    trace: TracePath,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Trace to write, or its page (.html).", metavar="FILE"),
    ],
    rename: Annotated[
        bool,
        typer.Option(
            "--rename",
            help="Also replace the names of files, modules, parameters and functions.",
        ),
    ] = False,
) -> None:
    """Copy a trace without arguments, source, messages and paths.

    Shapes, times, line numbers and statistics of values stay. Names stay, too, without --rename;
    with it, they are replaced, and the same name always gets the same replacement.
    """
    from gradscope.render.pictures import target_of
    from gradscope.scene.graph.options import GraphOptions
    from gradscope.trace.load_save import save
    from gradscope.trace.privacy.redact import redacted

    is_page = output.suffix == ".html"
    if not is_page:
        may_write_trace(output, [trace], "the trace itself")
    without = redacted(load(trace), rename=rename)
    if is_page:
        write(without, GraphOptions(), target_of(trace, output, "html"))
    else:
        save(without, output)
        sys.stdout.write(f"wrote {safe(str(output))}\n")
    names = "names were replaced" if rename else "names were kept (--rename replaces them)"
    sys.stdout.write(f"removed: arguments, source text, messages, paths, host; {names}\n")
