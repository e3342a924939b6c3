"""`gradscope merge`: the traces of several ranks as one."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.output import load, safe
from gradscope.errors import UsageError


def merge(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE...", help="The traces of the ranks.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The trace to write, over an older one.")
    ] = Path("trace.json"),
) -> None:
    """Put the traces of several ranks into one, on one clock."""
    from gradscope.analysis.ranks.merge import merged
    from gradscope.trace.load_save import is_trace, save

    if any(output.exists() and output.samefile(trace) for trace in traces if trace.exists()):
        raise UsageError(f"{output} is one of the traces itself; name the whole otherwise, with -o")
    if output.is_file() and not is_trace(output):
        raise UsageError(f"{output} is there already and is no trace; name the whole otherwise")
    whole = merged([load(trace) for trace in traces])
    save(whole, output)
    ranks = ", ".join(str(each["rank"]) for each in whole.meta["ranks"])
    sys.stdout.write(f"wrote {safe(str(output))}: ranks {ranks}; clocks: {whole.meta['clock']}\n")
    first = whole.meta["ranks"][0]["rank"]
    sys.stdout.write(f"next: gradscope timeline --rank {first} {safe(str(output))}\n")
