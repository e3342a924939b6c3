"""`gradscope merge` and `gradscope audit`: the traces of several ranks."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Plain, TraceOutput, TracePaths, Width
from gradscope.commands.options.output import load, load_all, may_write_trace, safe, terminal
from gradscope.errors import UsageError


def merge(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces of the ranks.")],
    output: TraceOutput = Path("trace.json"),
) -> None:
    """Merge the traces of several ranks into one, on one clock."""
    from gradscope.analysis.ranks.merging.merge import merged
    from gradscope.analysis.ranks.whose import listed
    from gradscope.trace.load_save import save

    may_write_trace(output, traces, "one of the traces to merge")
    whole = merged(load_all(traces))
    save(whole, output)
    ranks = [each["rank"] for each in whole.meta["ranks"]]
    path, clock = safe(str(output)), whole.meta["clock"]
    sys.stdout.write(f"wrote {path}: {listed(ranks)}; clocks: {clock}\n")
    sys.stdout.write(f"next: gradscope timeline --rank {ranks[0]} {path}\n")


def audit(
    traces: TracePaths,
    step: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Step of the optimizer, from 0 [default: the first that was measured].",
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
    """Show how ranks combined each gradient: averaged, summed, or not."""
    from gradscope.analysis.ranks.audit import audits, why_none
    from gradscope.render.terminal.cells import line
    from gradscope.render.views.tables import table_lines
    from gradscope.scene.timeline.audit_table import audit_json, audit_table

    whole = load(traces)
    found = audits(whole, step, None if against is None else load(against), some=True)
    if not found:
        raise UsageError(why_none(whole, step))
    if as_json:
        sys.stdout.write(audit_json(whole, found))
        return
    out = terminal(plain=plain, width=width)
    for at, one in enumerate(found):
        if at:
            out.show([line("")])
        out.show(table_lines(audit_table(whole, one, each=each), out.width, out.charset))
