"""`gradscope merge`: the traces of several ranks as one."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import TraceOutput
from gradscope.commands.options.output import load, may_write_trace, safe


def merge(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces of the ranks.")],
    output: TraceOutput = Path("trace.json"),
) -> None:
    """Merge the traces of several ranks into one, on one clock."""
    from gradscope.analysis.ranks.merge import merged
    from gradscope.trace.load_save import save

    may_write_trace(output, traces, "one of the traces to merge")
    whole = merged([load(trace) for trace in traces])
    save(whole, output)
    ranks = ", ".join(str(each["rank"]) for each in whole.meta["ranks"])
    sys.stdout.write(f"wrote {safe(str(output))}: ranks {ranks}; clocks: {whole.meta['clock']}\n")
    first = whole.meta["ranks"][0]["rank"]
    sys.stdout.write(f"next: gradscope timeline --rank {first} {safe(str(output))}\n")
