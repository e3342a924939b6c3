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
        typer.Option(help="What to record: torch, gradscope; auto: PyTorch if installed."),
    ] = "auto",
    steps: Annotated[str | None, typer.Option(help="Only these steps.", metavar="A:B")] = None,
    ranks: Annotated[
        str | None, typer.Option(help="Under torchrun, only these ranks.", metavar="R,…")
    ] = None,
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
    options = TraceOptions(
        script=name,
        arguments=tuple(arguments),
        module=module,
        output=output,
        level=level,
        on=on,
        steps=steps,
        ranks=ranks,
        max_events=max_events,
        max_bytes=max_bytes,
        native=native,
    )
    outcome = run_script(options, say=_unsaid if quiet else _say)
    if outcome.trouble:
        _say(outcome.trouble)
    if outcome.trace is not None and not quiet:
        from gradscope.render.views.recorded import recorded

        sys.stdout.flush()
        *lines, following = recorded(outcome.trace, shown=output.with_name(outcome.trace.name))
        for line in (*lines, *filter(None, [outcome.elsewhere]), following):
            _say(line)
    raise typer.Exit(outcome.code)


def _say(text: str) -> None:
    sys.stderr.write(f"gradscope: {safe(text)}\n")


def _unsaid(text: str) -> None:
    """Only the script speaks."""
