"""`gradscope verify`: compute gradients of kept nodes again, and say which differ."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.options.arguments import Plain, Width
from gradscope.commands.options.output import load, terminal, write_bytes
from gradscope.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gradscope.trace.trace import Trace

Kept = Annotated[
    Path, typer.Argument(metavar="TRACE", help="Trace file with kept values, or the values.")
]
Seconds = Annotated[
    int | None, typer.Option(help="Begin with no further node after N seconds.", metavar="N")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write one object per run of a node.")]


def verify(
    path: Kept,
    seconds: Seconds = None,
    json: AsJson = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Compute gradients of nodes again in float64, from kept values."""
    import math

    import orjson

    from gradscope.record.acts.kept.node_values import recording_of, values_file
    from gradscope.record.from_runtime.again.verify import as_json, verified

    kept = path if path.suffix == ".npz" else values_file(path)
    if not kept.is_file():
        raise UsageError(
            f"there is no {kept}; record with --check-nodes all --keep-values, which writes it"
        )
    lines = {}
    if path != kept:
        trace = load(path)
        recording = trace.meta.get("checked_nodes", {}).get("recording")
        if recording != recording_of(kept):
            raise UsageError(f"{kept} was written by another run than {path}; record again")
        lines = _lines(trace)
    found = verified(kept, math.inf if seconds is None else seconds)
    if json:
        write_bytes(orjson.dumps(as_json(found)) + b"\n")
    else:
        from gradscope.render.views.tables import table_lines
        from gradscope.scene.timeline.checked_nodes import CheckedRun, checked_table

        runs = [
            CheckedRun(
                run.kind, lines.get(run.stack, ""), each.found, each.input, each.off, each.allowed
            )
            for run, each in found
        ]
        out = terminal(plain=plain, width=width)
        out.show(table_lines(checked_table(runs), out.width, out.charset))
    if any(verdict.differs for _, verdict in found):
        raise typer.Exit(ExitCode.FOUND)


def _lines(trace: "Trace") -> "dict[int, str]":
    """The line of each stack of a trace."""
    from gradscope.analysis.identity.sites import site_of
    from gradscope.trace.schema import Stack

    return {row.id: site_of(trace, row.id).place for row in trace.rows(Stack)}
