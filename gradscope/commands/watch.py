"""`gradscope watch`: a live look at a trace that is being written."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.options.arguments import Plain, TracePaths, Width
from gradscope.commands.options.output import terminal
from gradscope.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from gradscope.render.terminal.terminal import Terminal
    from gradscope.scene.live import WatchedTrace

LEAST = 0.1
QUIET = 3.0
"""Seconds without a change of the file after which it is checked whether it is still written."""


def watch(
    trace: TracePaths,
    every: Annotated[
        float,
        typer.Option("--every", help="Look again after this many seconds.", metavar="SECONDS"),
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, then exit.")] = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Show how a recording goes on while the program runs.

    On a terminal the lines are replaced; in a pipe or a file each look adds a line per trace. Only
    what was written since the last look is read.
    """
    from gradscope.scene.live import watched

    if not every >= LEAST:
        raise UsageError(f"--every takes seconds, {LEAST} or more")
    out = terminal(plain=plain, width=width)
    traces = [watched(path) for path in trace]
    _look(traces)
    if once:
        out.show(_lines(traces, out))
    elif sys.stdout.isatty() and not plain:
        _live(traces, out, every)
    else:
        _in_lines(traces, out, every)


def _look(traces: "list[WatchedTrace]") -> None:
    """Read what was added; notice recordings that stopped without closing their file."""
    from gradscope.scene.live import LiveState
    from gradscope.trace.file.opening import is_being_written

    for each in traces:
        if each.is_over():
            continue
        size = each.trace.size
        each.look()
        grew = each.trace.size != size
        if each.is_over():
            continue
        quiet = time.time() - each.trace.written > QUIET
        is_left = not grew and quiet and sys.platform != "win32"  # no locks there
        is_left = is_left and not is_being_written(each.trace.path)
        each.state = LiveState.CUT if is_left else LiveState.RUNNING


def _lines(traces: "list[WatchedTrace]", out: "Terminal") -> "list[Text]":
    from gradscope.render.views.tables import facts_lines
    from gradscope.scene.live import live_facts

    return [row for each in traces for row in facts_lines(live_facts(each), out.width, out.charset)]


def _live(traces: "list[WatchedTrace]", out: "Terminal", every: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from gradscope.scene.live import all_ended

    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=out.width)
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            live.update(Text("\n").join(_lines(traces, out)), refresh=True)
            if all_ended(traces):
                return
            time.sleep(every)
            _look(traces)


def _in_lines(traces: "list[WatchedTrace]", out: "Terminal", every: float) -> None:
    """A line for each trace that changed since the last look."""
    from gradscope.render.terminal.cells import line
    from gradscope.scene.live import all_ended, one_line

    shown: dict[str, tuple[int, str]] = {}
    while True:
        for each in traces:
            key = str(each.trace.path)
            now = (each.trace.windows, str(each.state))
            if shown.get(key) != now:
                shown[key] = now
                out.show([line(out.charset.text(one_line(each)))])
        if all_ended(traces):
            return
        time.sleep(every)
        _look(traces)
