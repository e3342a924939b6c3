"""The application: every command there is, in the order that help lists them.

Annotations are no texts in this room, as they are elsewhere: Typer would compile each twice.
"""

import sys
from typing import Annotated

import typer

from gradscope import __version__
from gradscope.commands.check import check
from gradscope.commands.dap import dap
from gradscope.commands.debug import debug
from gradscope.commands.diff import diff
from gradscope.commands.info import info
from gradscope.commands.inspect import inspect
from gradscope.commands.merge import merge
from gradscope.commands.options.arguments import QuickGroup
from gradscope.commands.render import render
from gradscope.commands.timeline import timeline
from gradscope.commands.trace import trace
from gradscope.commands.view import view
from gradscope.commands.warmup import warmup

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


@app.callback(invoke_without_command=True)
def _gradscope(
    version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False,
) -> None:
    if version:
        sys.stdout.write(f"gradscope {__version__}\n")
        raise typer.Exit


for _view in (render, view, timeline, inspect, debug, diff, check, info):
    app.command()(_view)
app.command(context_settings={"allow_interspersed_args": False}, no_args_is_help=True)(trace)
app.command(no_args_is_help=True)(merge)
app.command()(dap)
app.command()(warmup)
