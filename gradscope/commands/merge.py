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
    from gradscope.analysis.ranks.whose import listed
    from gradscope.trace.load_save import save

    may_write_trace(output, traces, "one of the traces to merge")
    whole = merged([load(trace) for trace in traces])
    save(whole, output)
    ranks = [each["rank"] for each in whole.meta["ranks"]]
    path, clock = safe(str(output)), whole.meta["clock"]
    sys.stdout.write(f"wrote {path}: {listed(ranks)}; clocks: {clock}\n")
    sys.stdout.write(f"next: gradscope timeline --rank {ranks[0]} {path}\n")
