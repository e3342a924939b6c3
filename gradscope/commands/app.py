"""The application: every command, in the order of work, as help lists them.

This folder does not postpone annotations: Typer would evaluate each of them twice.
"""

import sys
from collections.abc import Callable
from typing import Annotated, Any

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
from gradscope.commands.options.help import GroupedCommand
from gradscope.commands.render import render
from gradscope.commands.timeline import timeline
from gradscope.commands.trace import trace
from gradscope.commands.view import view
from gradscope.commands.warmup import warmup

app = typer.Typer(
    name="gradscope",
    cls=QuickGroup,
    help="Record what an autograd engine does, step by step, and show it.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # panels would double the time that --help takes
)

COMMAND_LINE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
"""What Typer raises for a wrong command line: click's ClickException, or its own copy of it."""


@app.callback(invoke_without_command=True)
def _gradscope(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        sys.stdout.write(f"gradscope {__version__}\n")
        raise typer.Exit


def _add(command: Callable[..., None], *examples: str, **settings: Any) -> None:
    app.command(cls=GroupedCommand, epilog="\n".join(examples), **settings)(command)


_add(
    trace,
    "gradscope trace train.py --epochs 3",
    "gradscope trace --level values -o nan.json train.py",
    "gradscope trace --steps 10:12 -m package.train",
    context_settings={"allow_interspersed_args": False},
    no_args_is_help=True,
)
_add(
    inspect,
    "gradscope inspect trace.json",
    "gradscope inspect --why-none encoder.weight trace.json",
    "gradscope inspect --explain nan",
)
_add(
    view,
    "gradscope view trace.json",
    "gradscope view before.json after.json",
)
_add(
    render,
    "gradscope render trace.json",
    "gradscope render --graph forward --expand layer3 trace.json",
    "gradscope render -o graph.png --around MulBackward0#2 trace.json",
)
_add(
    timeline,
    "gradscope timeline trace.json",
    "gradscope timeline --step 3 --sort time trace.json",
)
_add(
    debug,
    "gradscope debug trace.json",
    "gradscope debug --at nan trace.json",
    "gradscope debug -x 'next nan' -x state trace.json",
)
_add(diff, "gradscope diff before.json after.json")
_add(info, "gradscope info trace.json")
_add(check, "gradscope check trace.json")
_add(merge, "gradscope merge -o all.json trace.rank*.json", no_args_is_help=True)
_add(dap, "gradscope dap")
_add(warmup, "gradscope warmup")
