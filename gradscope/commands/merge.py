"""`gradscope merge`: the traces of several ranks as one."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.output import load, safe
from gradscope.errors import UsageError


def merge(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces of the ranks.")],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Trace file to write. An older trace is replaced.",
            metavar="FILE",
        ),
    ] = Path("trace.json"),
) -> None:
    """Merge the traces of several ranks into one, on one clock."""
    from gradscope.analysis.ranks.merge import merged
    from gradscope.trace.load_save import is_trace, save

    if any(output.exists() and output.samefile(trace) for trace in traces if trace.exists()):
        raise UsageError(f"{output} is one of the traces to merge; choose another name with -o")
    if output.is_file() and not is_trace(output):
        raise UsageError(f"{output} exists and is not a trace; choose another name with -o")
    whole = merged([load(trace) for trace in traces])
    save(whole, output)
    ranks = ", ".join(str(each["rank"]) for each in whole.meta["ranks"])
    sys.stdout.write(f"wrote {safe(str(output))}: ranks {ranks}; clocks: {whole.meta['clock']}\n")
    first = whole.meta["ranks"][0]["rank"]
    sys.stdout.write(f"next: gradscope timeline --rank {first} {safe(str(output))}\n")
