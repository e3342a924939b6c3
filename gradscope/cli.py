"""The command line: parse, call one room after another, print. The only room that exits.

Each command imports what it needs when it runs, so that `gradscope --help` starts at once.
"""

import gc
import sys
from typing import NoReturn

import typer
from typer.main import get_command

from gradscope.commands.app import COMMAND_LINE_ERROR, app
from gradscope.commands.options import other_package
from gradscope.commands.options.output import safe
from gradscope.errors import ExitCode, GradscopeError, fault_text
from gradscope.render.terminal import streams


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
    return _fail(f"{message.rstrip('.')}; see gradscope --help", ExitCode.MISUSED)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"gradscope: error: {safe(message)}\n")
    return code


def _broken(error: Exception) -> int:
    """A fault of gradscope's own: one line with its place, for the report of it."""
    message = f"a fault in gradscope: {fault_text(error)}"
    return _fail(f"{message}; please report it with the trace", ExitCode.BROKEN)
