"""`gradscope inspect`: what is wrong in a trace, where the time went, and all about one thing."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.arguments import Everything, Plain, Rank, Width
from gradscope.commands.output import load, terminal, write_bytes
from gradscope.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gradscope.render.terminal.terminal import Terminal
    from gradscope.trace.trace import Trace


class FailOn(StrEnum):
    """The least severe finding that makes `inspect` exit with 1."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"
    NEVER = "never"


def inspect(
    trace: Annotated[Path | None, typer.Argument(metavar="TRACE", help="A trace file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The report for programs.")] = False,
    rule: Annotated[list[str] | None, typer.Option(help="Only this rule.", metavar="RULE")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Not this rule.", metavar="RULE")] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="The least severe finding that makes the exit code 1.")
    ] = FailOn.WARNING,
    node: Annotated[
        str | None,
        typer.Option(help="All that is known of a node: its id or name.", metavar="NODE"),
    ] = None,
    tensor: Annotated[
        str | None,
        typer.Option(help="All that is known of a tensor: its id or name.", metavar="TENSOR"),
    ] = None,
    op: Annotated[
        str | None,
        typer.Option(help="All that is known of a forward call: its id or name.", metavar="OP"),
    ] = None,
    explain: Annotated[
        str | None, typer.Option(help="Say what a rule looks for.", metavar="RULE")
    ] = None,
    rank: Rank = None,
    rows: Annotated[int, typer.Option(help="At most so many lines of each table.", min=1)] = 8,
    everything: Everything = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Say what is wrong in a trace, and where the time went."""
    from gradscope.analysis import report as analysis
    from gradscope.analysis.findings import Severity
    from gradscope.render.views.report import report_json, report_lines

    out = terminal(plain=plain, width=width)
    if explain is not None:
        _explain(explain, out)
        return
    if trace is None:
        raise UsageError("inspect needs a trace: gradscope inspect TRACE")
    loaded = load(trace, rank)
    shown_rows = 0 if everything else rows
    asked = {"node": node, "tensor": tensor, "op": op}
    if any(each is not None for each in asked.values()):
        _all_about(loaded, asked, out, None if json else shown_rows)
        return
    report = analysis.inspect(loaded, rules=rule or (), ignore=ignore or ())
    if json:
        write_bytes(f"{report_json(report, loaded.notes)}\n".encode())
    else:
        out.show(report_lines(report, out.width, out.charset, shown_rows))
    if fail_on is not FailOn.NEVER and report.at_least(Severity[fail_on.name]):
        raise typer.Exit(ExitCode.FOUND)


def _all_about(
    trace: "Trace", asked: "dict[str, str | None]", out: "Terminal", rows: int | None
) -> None:
    """Show all about what was asked for; as JSON without a number of rows."""
    from gradscope.render.views.details import chosen_json, chosen_lines
    from gradscope.scene.details import chosen_node, chosen_op, chosen_tensor

    given = [(kind, wanted) for kind, wanted in asked.items() if wanted is not None]
    if len(given) > 1:
        raise UsageError("inspect looks at one thing at a time: --node, --tensor or --op")
    ((kind, wanted),) = given
    scene = {"node": chosen_node, "tensor": chosen_tensor, "op": chosen_op}[kind](trace, wanted)
    if rows is None:
        write_bytes(f"{chosen_json(scene)}\n".encode())
    else:
        out.show(chosen_lines(scene, out.width, out.charset, rows))


def _explain(name: str, out: "Terminal") -> None:
    from gradscope.analysis.rules import all_rules
    from gradscope.analysis.rules.registry import require
    from gradscope.render.views.report import rule_lines

    out.show(rule_lines(require(all_rules(), name), out.width, out.charset))
