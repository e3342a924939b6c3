"""`gradscope debug`: walk through a trace, forwards and backwards in time."""

import shutil
import sys
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Plain, Rank, TracePath, Width
from gradscope.commands.options.output import load, terminal

PIPE_SCREEN = 40
LEAST = 12
PROMPT_LINES = 2


def debug(
    trace: TracePath,
    at: Annotated[
        str,
        typer.Option(
            help="Where to begin: a moment's number, e57 for event 57, end, a line (train.py:41), "
            "a finding (#b4ce), or what to stop at first (nan).",
            metavar="WHERE",
        ),
    ] = "start",
    execute: Annotated[
        list[str] | None,
        typer.Option(
            "-x",
            help="Do this, as if it were typed. May be given several times; then "
            "the debugger ends.",
            metavar="COMMAND",
        ),
    ] = None,
    rank: Rank = None,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Step through a trace, forwards and backwards; `help` lists the commands.

    Commands come from the keyboard, from -x, or from a pipe.
    """
    from gradscope.debug.lines import converse, show, typed
    from gradscope.debug.walk import Walk

    out = terminal(plain=plain, width=width)
    walk = Walk(load(trace, rank))
    walk.moment = walk.place(at)
    by_hand = not execute and sys.stdin.isatty()
    lines = shutil.get_terminal_size().lines - PROMPT_LINES if by_hand else PIPE_SCREEN
    lines = max(lines, LEAST)
    if by_hand:
        show(walk, "state", out, lines)
    converse(walk, execute or (typed() if by_hand else sys.stdin), out, lines, echo=not by_hand)
