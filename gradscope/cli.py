"""The command line: parse, call one room after another, print. The only place that exits.

Each command imports what it needs when it runs, so that `gradscope --help` starts at once. And
annotations are no texts here, as they are elsewhere: Typer would compile each of them twice.
"""

import gc
import sys
import traceback
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gradscope import __version__
from gradscope.arguments import Everything, Plain, QuickGroup, Step, Task, TracePath, Width
from gradscope.errors import GradscopeError, MissingProgramError, RenderingError, UsageError
from gradscope.render import streams
from gradscope.scene.choices import ColorBy, GroupBy

if TYPE_CHECKING:
    from gradscope.render.pictures import Target
    from gradscope.render.terminal import Terminal
    from gradscope.render.theme import Theme
    from gradscope.scene.picture import GraphScene
    from gradscope.trace.run import Trace

app = typer.Typer(
    name="gradscope",
    cls=QuickGroup,
    help="Records what an autograd engine does, step by step, and shows it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # panels would double the time that --help takes
)

COMMAND_LINE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
"""What Typer raises for a wrong command line: click's ClickException, or its own copy of it."""

NOTHING_FOUND, FOUND, MISUSED, BROKEN = 0, 1, 2, 70
INTERRUPTED, PIPE_CLOSED = 130, 141


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


@app.callback(invoke_without_command=True)
def _gradscope(
    version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False,
) -> None:
    if version:
        sys.stdout.write(f"gradscope {__version__}\n")
        raise typer.Exit


# Views ---------------------------------------------------------------------------------------


@app.command()
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
    scene = graph_scene(_load(trace), options)
    _write_picture(scene, THEMES[theme], target)


@app.command()
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
    out = _terminal(plain=plain, width=width)
    loaded = _load(trace)
    if events:
        out.show(event_lines(event_list(loaded, options, limits[0]), out.width, out.charset))
    else:
        out.show(timeline_lines(timeline_scene(loaded, options), out.width, out.charset))


@app.command()
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

    out = _terminal(plain=plain, width=width)
    if explain is not None:
        _explain(explain, out)
        return
    if trace is None:
        raise UsageError("inspect needs a trace: gradscope inspect TRACE")
    loaded = _load(trace)
    report = analysis.inspect(loaded, rules=rule or (), ignore=ignore or ())
    if json:
        _write_bytes(f"{report_json(report, loaded.notes)}\n".encode())
    else:
        out.show(report_lines(report, out.width, out.charset, 0 if everything else rows))
    if fail_on is not FailOn.NEVER and report.at_least(Severity[fail_on.name]):
        raise typer.Exit(FOUND)


@app.command()
def check(trace: TracePath, plain: Plain = False, width: Width = None) -> None:
    """Hold a trace to what must be true of every trace."""
    from gradscope.render.tables import violation_lines
    from gradscope.trace.spec import check as violations_of

    out = _terminal(plain=plain, width=width)
    found = violations_of(_load(trace))
    out.show(violation_lines(found, out.width, out.charset))
    if found:
        raise typer.Exit(FOUND)


@app.command()
def info(trace: TracePath, plain: Plain = False, width: Width = None) -> None:
    """Say what a trace file is and what it holds."""
    from gradscope.render.cells import line
    from gradscope.render.tables import facts_lines, table_lines
    from gradscope.scene.tables import info_facts, info_tables

    out = _terminal(plain=plain, width=width)
    loaded = _load(trace)
    facts = info_facts(loaded, str(trace), trace.stat().st_size)
    out.show(facts_lines(facts, out.width, out.charset))
    for table in info_tables(loaded):
        out.show([line("")])
        out.show(table_lines(table, out.width, out.charset))


# Recording -----------------------------------------------------------------------------------


@app.command(context_settings={"allow_interspersed_args": False}, no_args_is_help=True)
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
    on: Annotated[str, typer.Option(help="What `import torch` is in the script.")] = "gradscope",
    steps: Annotated[str | None, typer.Option(help="Only these steps.", metavar="A:B")] = None,
    max_events: Annotated[
        int | None, typer.Option(help="Leave out steps after so many events.", min=1)
    ] = None,
    max_bytes: Annotated[int | None, typer.Option(help="The largest trace.", min=1)] = None,
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
            name, tuple(arguments), module, output, level, on, steps, max_events, max_bytes
        )
    )
    if outcome.trouble:
        sys.stderr.write(f"gradscope: {_safe(outcome.trouble)}\n")
    if outcome.trace is not None and not quiet:
        from gradscope.render.recorded import recorded

        sys.stdout.flush()
        sys.stderr.write(f"gradscope: {_safe(recorded(outcome.trace, shown=output))}\n")
    raise typer.Exit(outcome.code)


# Helpers -------------------------------------------------------------------------------------


def _load(path: Path) -> "Trace":
    from gradscope.trace.codec import load

    return load(path)


def _explain(name: str, out: "Terminal") -> None:
    from gradscope.analysis.rules import all_rules
    from gradscope.analysis.rules.registry import require
    from gradscope.render.report import rule_lines

    out.show(rule_lines(require(all_rules(), name), out.width, out.charset))


def _terminal(*, plain: bool, width: int | None) -> "Terminal":
    from gradscope.render.terminal import Terminal

    return Terminal(sys.stdout, plain=plain, width=width)


def _write_picture(scene: "GraphScene", theme: "Theme", target: "Target") -> None:
    """Write the picture; where it cannot be drawn, write its DOT source and say so."""
    from gradscope.render.formats import format_called
    from gradscope.render.graphviz_program import INSTALL
    from gradscope.render.pictures import put

    if target.path is None:
        _write_bytes(target.format.write(scene, theme))
        _say_notes(scene)
        return
    try:
        content = target.format.write(scene, theme)
    except (MissingProgramError, RenderingError) as error:
        if not target.format.needs_dot:
            raise
        instead = target.path.with_suffix(".dot")
        put(instead, format_called("dot").write(scene, theme))
        raise type(error)(f"{error}; wrote {_shown(instead)} instead") from None
    put(target.path, content)
    boxes = f"{len(scene.boxes):,} {'box' if len(scene.boxes) == 1 else 'boxes'}"
    sys.stdout.write(f"wrote {_shown(target.path)}: {boxes}\n")
    if not target.asked_for and not target.format.needs_dot:
        sys.stderr.write(f"gradscope: DOT, since Graphviz's dot is not installed ({INSTALL})\n")
    _say_notes(scene)


def _say_notes(scene: "GraphScene") -> None:
    for note in scene.notes:
        sys.stderr.write(f"gradscope: {_safe(note)}\n")


def _write_bytes(content: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _shown(path: Path) -> str:
    return _safe(str(path))


def _safe(text: str) -> str:
    """Text on one line, in characters that the standard error can show."""
    from gradscope.render.text import visible

    encoding = sys.stderr.encoding or "ascii"
    return visible(text, 2_000).encode(encoding, "backslashreplace").decode(encoding)


# The way out ---------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command; explain what went wrong in one line; exit."""
    if arguments is None:  # the process is ours, and ends before it has garbage worth collecting
        gc.disable()
    streams.open_closed()
    code = _run(arguments)
    if not gc.isenabled():
        gc.freeze()  # nor is it, on the way out
    sys.exit(code)


def _run(arguments: list[str] | None) -> int:
    try:
        code = app(arguments, standalone_mode=False)
        sys.stdout.flush()
    except GradscopeError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        streams.give_up_output()
        return PIPE_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except COMMAND_LINE_ERROR as error:
        return _misused(error)
    except OSError as error:
        if not streams.is_of_a_stream(error):
            return _broken(error)
        streams.give_up_output()
        return _fail(f"cannot write the output: {error.strerror}", MISUSED)
    except Exception as error:  # noqa: BLE001  the last resort
        return _broken(error)
    return code if isinstance(code, int) else NOTHING_FOUND


def _misused(error: Exception) -> int:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    if context is not None and message == context.get_help():  # nothing was asked for
        sys.stderr.write(f"{message}\n")
        return MISUSED
    return _fail(f"{message.rstrip('.')}; see gradscope --help", MISUSED)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"gradscope: error: {_safe(message)}\n")
    return code


def _broken(error: Exception) -> int:
    """A fault of gradscope's own: one line with its place, for the report of it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    file = Path(place.filename).name
    message = f"a fault in gradscope: {type(error).__name__}: {error} ({file}:{place.lineno})"
    return _fail(f"{message}; please report it with the trace", BROKEN)
