"""`gradscope trace`: run a script and record its trace."""

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.output import safe


def trace(
    script: Annotated[
        list[str], typer.Argument(metavar="SCRIPT [ARGS]...", help="The script, and its arguments.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The trace to write, over an older one.")
    ] = Path("trace.json"),
    module: Annotated[
        bool, typer.Option("-m", "--module", help="SCRIPT is the name of a module.")
    ] = False,
    level: Annotated[str, typer.Option(help="graph, engine, values or full.")] = "engine",
    on: Annotated[
        str,
        typer.Option(help="What `import torch` is: torch, gradscope; auto: torch if installed."),
    ] = "gradscope",
    steps: Annotated[str | None, typer.Option(help="Only these steps.", metavar="A:B")] = None,
    max_events: Annotated[
        int | None, typer.Option(help="Leave out steps after so many events.", min=1)
    ] = None,
    max_bytes: Annotated[int | None, typer.Option(help="The largest trace.", min=1)] = None,
    native: Annotated[
        bool,
        typer.Option("--native/--no-native", help="PyTorch: watch it by machine code, too."),
    ] = True,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only the script speaks.")] = False,
) -> None:
    """Run a script and record its trace."""
    from gradscope.record.run_script import TraceOptions, run_script

    if not gc.isenabled():
        gc.freeze()  # what is there before the script need not be looked through again and again
        gc.enable()  # what the script leaves behind is collected, as it would be under python
    name, *arguments = script
    outcome = run_script(
        TraceOptions(
            name, tuple(arguments), module, output, level, on, steps, max_events, max_bytes, native
        )
    )
    if outcome.trouble:
        sys.stderr.write(f"gradscope: {safe(outcome.trouble)}\n")
    if outcome.trace is not None and not quiet:
        from gradscope.render.views.recorded import recorded

        sys.stdout.flush()
        sys.stderr.write(f"gradscope: {safe(recorded(outcome.trace, shown=output))}\n")
        if outcome.elsewhere:
            sys.stderr.write(f"gradscope: {safe(outcome.elsewhere)}\n")
    raise typer.Exit(outcome.code)
