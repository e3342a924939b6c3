"""The command line: every command in the order of work, and how a run of one ends.

Each command imports what it needs when it runs, so that `gradscope --help` starts at once. Here and
in `commands`, annotations are not postponed: Typer would evaluate each of them twice.
"""

import gc
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from gradscope import __version__
from gradscope.commands.check import check
from gradscope.commands.debugging.dap import dap
from gradscope.commands.debugging.debug import debug
from gradscope.commands.debugging.law import law
from gradscope.commands.debugging.mcp import mcp
from gradscope.commands.debugging.verify import verify
from gradscope.commands.diff import diff
from gradscope.commands.fleet.across_ranks import audit, merge
from gradscope.commands.fleet.ask import ask
from gradscope.commands.fleet.export import export
from gradscope.commands.info import info
from gradscope.commands.inspect import inspect
from gradscope.commands.options import other_package
from gradscope.commands.options.arguments import QuickGroup
from gradscope.commands.options.help import GroupedCommand
from gradscope.commands.options.output import safe
from gradscope.commands.redact import redact
from gradscope.commands.render import render
from gradscope.commands.timeline import timeline
from gradscope.commands.trace import trace
from gradscope.commands.view import view
from gradscope.commands.warmup import warmup
from gradscope.commands.watch import watch
from gradscope.errors import ExitCode, GradscopeError, fault_text
from gradscope.render.terminal import streams

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
    "gradscope debug -x 'continue nan' -x state trace.json",
)
_add(watch, "gradscope watch trace.json", "gradscope watch --every 5 trace.rank*.json")
_add(diff, "gradscope diff before.json after.json")
_add(info, "gradscope info trace.json")
_add(redact, "gradscope redact -o safe.json trace.json", "gradscope redact -o safe.html trace.json")
_add(check, "gradscope check trace.json")
_add(verify, "gradscope verify trace.json")
_add(
    law,
    "gradscope law determinism train.py --epochs 1",
    "gradscope law eval train.py",
    "gradscope law --whole '-b 32' --parts '-b 8 -a 4' accumulate train.py",
    context_settings={"allow_interspersed_args": False},
    no_args_is_help=True,
)
_add(merge, "gradscope merge -o all.json trace.rank*.json", no_args_is_help=True)
_add(
    audit,
    "gradscope audit trace.rank*.json",
    "gradscope audit --against trace.json trace.rank*.json",
    no_args_is_help=True,
)
_add(
    export,
    "gradscope export --to fleet/ --run lr3e-4 trace.rank*.json",
    no_args_is_help=True,
)
_add(
    ask,
    "gradscope ask fleet/",
    "gradscope ask fleet/ first-nan --run lr3e-4",
    "gradscope ask fleet/ --sql 'SELECT step, avg(loss) FROM step GROUP BY step'",
    no_args_is_help=True,
)
_add(dap, "gradscope dap")
_add(mcp, "gradscope mcp traces/")
_add(warmup, "gradscope warmup")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command; explain what went wrong in one line; exit."""
    if arguments is None:  # the process is ours, and ends before it has garbage worth collecting
        gc.disable()
    streams.open_closed()
    if clash := other_package.warning():
        sys.stderr.write(f"gradscope: warning: {safe(clash)}\n")
    code = _run(arguments)
    if not gc.isenabled():
        gc.freeze()  # nor is it, on the way out
    if code is ExitCode.INTERRUPTED and arguments is None:  # not sys.exit of a script
        sys.excepthook = _said_already  # Python ends as Ctrl-C ends a process
        raise KeyboardInterrupt
    sys.exit(code)


def _said_already(*_: object) -> None:
    """What Python would show is shown, or is no news."""


def _run(arguments: list[str] | None) -> int:
    try:
        code = get_command(app)(arguments, standalone_mode=False)  # Typer's way replaces excepthook
        if not sys.stdout.closed:  # `dap` closes it, so that the editor sees the end
            sys.stdout.flush()
    except GradscopeError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        streams.give_up_output()
        return ExitCode.PIPE_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except COMMAND_LINE_ERROR as error:
        return _misused(error)
    except OSError as error:
        if not streams.is_of_a_stream(error):
            return _broken(error)
        streams.give_up_output()
        return _fail(f"cannot write the output: {error.strerror}", ExitCode.MISUSED)
    except Exception as error:  # noqa: BLE001  the last resort
        return _broken(error)
    return code if isinstance(code, int) else ExitCode.NOTHING_FOUND


def _misused(error: Exception) -> int:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    if context is not None and message == context.get_help():  # nothing was asked for
        sys.stderr.write(f"{message}\n")
        return ExitCode.MISUSED
    is_of_a_command = getattr(context, "parent", None) is not None
    name = f"gradscope {context.info_name}" if context and is_of_a_command else "gradscope"
    meant = re.match(r"No such command '([^']*\.py)'", message)
    if meant:
        message = f"{meant[1]} is not a command; record it: gradscope trace {meant[1]}"
    return _fail(f"{message.rstrip('.')}; see {name} --help", ExitCode.MISUSED)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"gradscope: error: {safe(message)}\n")
    return code


def _broken(error: Exception) -> int:
    """A fault of gradscope's own: one line with its place, for the report of it."""
    message = f"a fault in gradscope: {fault_text(error)}"
    return _fail(f"{message}; please report it with the trace", ExitCode.BROKEN)
