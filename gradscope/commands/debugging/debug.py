"""`gradscope debug`: step through a trace, forwards and backwards in time."""

import gc
import shutil
import sys
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Plain, Rank, TracePaths, Width
from gradscope.commands.options.output import load, say, terminal
from gradscope.errors import ExitCode

PIPE_SCREEN = 40
LEAST = 12
PROMPT_LINES = 2


def debug(
    trace: TracePaths,
    at: Annotated[
        str,
        typer.Option(
            help="Where to start: the number of a moment, e57 (event 57), end, a line "
            "(train.py:41), a finding (#b4ce), or a breakpoint (nan).",
            metavar="WHERE",
        ),
    ] = "start",
    execute: Annotated[
        list[str] | None,
        typer.Option(
            "-x",
            help="Run this command, then exit. Can be given several times.",
            metavar="COMMAND",
        ),
    ] = None,
    rank: Rank = None,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Step through a trace, forwards and backwards in time.

    `help` lists the commands, ? the keys. On a terminal it fills the screen if Textual is
    installed. With --plain, --width, -x or a pipe, commands and answers are lines of text.
    """
    from gradscope.debug.lines import converse, show, typed
    from gradscope.debug.screen import opening
    from gradscope.debug.walk import Walk

    walk = Walk(load(trace, rank))
    say(walk.trace.notes[: walk.trace.truncated])
    walk.moment = walk.place(at)
    gc.freeze()  # avoids that the garbage collector traverses a million moments repeatedly
    by_hand = not execute and sys.stdin.isatty()
    if by_hand and not plain and width is None and opening.is_screen(sys.stdin, sys.stdout):
        if opening.installed():
            opening.show(walk)
            return
        say((opening.HOW_TO_GET,))
    out = terminal(plain=plain, width=width)
    lines = shutil.get_terminal_size().lines - PROMPT_LINES if by_hand else PIPE_SCREEN
    lines = max(lines, LEAST)
    if by_hand:
        show(walk, "state", out, lines)
    commands = execute or (typed() if by_hand else sys.stdin)
    errors = converse(walk, commands, out, lines, echo=not by_hand).errors
    if errors and not by_hand:
        raise typer.Exit(ExitCode.MISUSED)
