"""The commands that look at a trace: render, timeline, inspect, check, info."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.arguments import Everything, Plain, Step, Task, TracePath, Width
from gradscope.commands.output import load, terminal, write_bytes, write_picture
from gradscope.errors import ExitCode, UsageError
from gradscope.scene.choices import ColorBy, GroupBy

if TYPE_CHECKING:
    from gradscope.render.terminal import Terminal


"""The exit code of a command that looked for something amiss, and found it."""


class FailOn(StrEnum):
    """The least severe finding that makes `inspect` exit with 1."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"
    NEVER = "never"


class ThemeName(StrEnum):
    """The background of a picture."""

    LIGHT = "light"
    DARK = "dark"


def render(
    trace: TracePath,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write; - for the output.")
    ] = None,
    format: Annotated[
        str | None, typer.Option("-f", "--format", help="dot, json, pdf, png or svg.")
    ] = None,
    around: Annotated[
        str | None,
        typer.Option(
            help="Only what is near a node: its id, its name (MulBackward0#2), a leaf, a module, "
            "or a source line (train.py:41).",
            metavar="NODE",
        ),
    ] = None,
    hops: Annotated[int, typer.Option(help="How near, with --around.", min=0)] = 2,
    step: Step = None,
    task: Task = None,
    color: Annotated[ColorBy, typer.Option(help="What the colours tell.")] = ColorBy.KIND,
    group: Annotated[GroupBy, typer.Option(help="What is framed together.")] = GroupBy.MODULE,
    expand: Annotated[
        list[str] | None,
        typer.Option(help="Never fold this module into a box.", metavar="MODULE"),
    ] = None,
    saved: Annotated[bool, typer.Option("--saved", help="Show what nodes keep.")] = False,
    tensors: Annotated[bool, typer.Option("--tensors", help="Show all shapes.")] = False,
    merge_leaves: Annotated[
        bool, typer.Option("--merge-leaves", help="One box for a leaf, not one for each use.")
    ] = False,
    limit: Annotated[int, typer.Option(help="At most so many boxes.", min=1)] = 400,
    everything: Everything = False,
    theme: Annotated[ThemeName, typer.Option(help="The background.")] = ThemeName.LIGHT,
) -> None:
    """Draw the backward graph of a trace."""
    from gradscope.analysis.selection import Selection
    from gradscope.render.pictures import target_of
    from gradscope.render.theme import THEMES
    from gradscope.scene.graph import graph_scene
    from gradscope.scene.options import GraphOptions

    options = GraphOptions(
        selection=Selection(step=step, task=task, around=around, hops=hops),
        color_by=color,
        group_by=group,
        merge_leaves=merge_leaves,
        saved=saved,
        tensors=tensors,
        expand=tuple(expand or ()),
        everything=everything,
        limit=limit,
    )
    target = target_of(trace, output, format)
    scene = graph_scene(load(trace), options)
    write_picture(scene, THEMES[theme], target)


def timeline(
    trace: TracePath,
    step: Step = None,
    task: Task = None,
    events: Annotated[bool, typer.Option("--events", help="List the engine's events.")] = False,
    rows: Annotated[
        int, typer.Option(help="At most so many nodes or events of each backward.", min=1)
    ] = 40,
    everything: Everything = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Show backward over time: threads, queues, nodes, hooks."""
    from gradscope.render.timeline import event_lines, timeline_lines
    from gradscope.scene.events import event_list
    from gradscope.scene.timeline import TimelineOptions, timeline_scene

    limits = (0, 0) if everything else (rows, 3)
    options = TimelineOptions(step, task, *limits)
    out = terminal(plain=plain, width=width)
    loaded = load(trace)
    if events:
        out.show(event_lines(event_list(loaded, options, limits[0]), out.width, out.charset))
    else:
        out.show(timeline_lines(timeline_scene(loaded, options), out.width, out.charset))


def inspect(
    trace: Annotated[Path | None, typer.Argument(metavar="TRACE", help="A trace file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The report for programs.")] = False,
    rule: Annotated[list[str] | None, typer.Option(help="Only this rule.", metavar="RULE")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Not this rule.", metavar="RULE")] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="The least severe finding that makes the exit code 1.")
    ] = FailOn.WARNING,
    explain: Annotated[
        str | None, typer.Option(help="Say what a rule looks for.", metavar="RULE")
    ] = None,
    rows: Annotated[int, typer.Option(help="At most so many lines of each table.", min=1)] = 8,
    everything: Everything = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Say what is wrong in a trace, and where the time went."""
    from gradscope.analysis import report as analysis
    from gradscope.analysis.findings import Severity
    from gradscope.render.report import report_json, report_lines

    out = terminal(plain=plain, width=width)
    if explain is not None:
        _explain(explain, out)
        return
    if trace is None:
        raise UsageError("inspect needs a trace: gradscope inspect TRACE")
    loaded = load(trace)
    report = analysis.inspect(loaded, rules=rule or (), ignore=ignore or ())
    if json:
        write_bytes(f"{report_json(report, loaded.notes)}\n".encode())
    else:
        out.show(report_lines(report, out.width, out.charset, 0 if everything else rows))
    if fail_on is not FailOn.NEVER and report.at_least(Severity[fail_on.name]):
        raise typer.Exit(ExitCode.FOUND)


def check(trace: TracePath, plain: Plain = False, width: Width = None) -> None:
    """Hold a trace to what must be true of every trace."""
    from gradscope.render.tables import violation_lines
    from gradscope.trace.spec import check as violations_of

    out = terminal(plain=plain, width=width)
    found = violations_of(load(trace))
    out.show(violation_lines(found, out.width, out.charset))
    if found:
        raise typer.Exit(ExitCode.FOUND)


def info(trace: TracePath, plain: Plain = False, width: Width = None) -> None:
    """Say what a trace file is and what it holds."""
    from gradscope.render.cells import line
    from gradscope.render.tables import facts_lines, table_lines
    from gradscope.scene.tables import info_facts, info_tables

    out = terminal(plain=plain, width=width)
    loaded = load(trace)
    facts = info_facts(loaded, str(trace), trace.stat().st_size)
    out.show(facts_lines(facts, out.width, out.charset))
    for table in info_tables(loaded):
        out.show([line("")])
        out.show(table_lines(table, out.width, out.charset))


def _explain(name: str, out: "Terminal") -> None:
    from gradscope.analysis.rules import all_rules
    from gradscope.analysis.rules.registry import require
    from gradscope.render.report import rule_lines

    out.show(rule_lines(require(all_rules(), name), out.width, out.charset))
