"""`gradscope trace`: run a script and record its trace."""

import gc
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.options.output import safe
from gradscope.errors import ExitCode, NoMemoryError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.commands.options.stop_on import Waited
    from gradscope.debug.live.stopping import Live
    from gradscope.record.run_script import Outcome, TraceOptions

Output = Annotated[
    Path, typer.Option("-o", "--output", help="The trace to write, over an older one.")
]
On = Annotated[
    str, typer.Option(help="What to record: torch, gradscope; auto: PyTorch if installed.")
]
Native = Annotated[
    bool, typer.Option("--native/--no-native", help="PyTorch: watch it by machine code, too.")
]
ChecksFunctions = Annotated[
    bool,
    typer.Option(
        "--check-functions/--no-check-functions",
        help="From level engine on: when the script has ended, run forwards of custom Functions "
        "again, and compare their derivatives with what backward returned.",
    ),
]
KeepsSource = Annotated[
    bool,
    typer.Option(
        "--source/--no-source",
        help="Keep the text of the program's own files in the trace, for rules that read it.",
    ),
]
StopOn = Annotated[
    list[str] | None,
    typer.Option(
        help="End the script where this is found: nan, inf, rule:SLUG. nan and inf are looked for "
        "at level values.",
        metavar="WHAT",
    ),
]
Break = Annotated[
    list[str] | None,
    typer.Option(
        "--break",
        help="Stop the script where this is, and open the debugger there: nan, node Mul*, "
        "train.py:41, 'grad *.bias', … (gradscope debug: help break).",
        metavar="WHAT",
    ),
]
BreakIn = Annotated[
    str | None,
    typer.Option(
        help="Stop at the first operation, or at the first node: forward or backward.",
        metavar="WHERE",
    ),
]
Execute = Annotated[
    list[str] | None,
    typer.Option("-x", help="Where it stops, do this, as if it were typed.", metavar="COMMAND"),
]
PostMortem = Annotated[
    bool, typer.Option("--pm", help="If the script dies, open the debugger where it did.")
]


Script = Annotated[
    list[str], typer.Argument(metavar="SCRIPT [ARGS]...", help="The script, and its arguments.")
]
IsModule = Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is the name of a module.")]
Ranks = Annotated[str | None, typer.Option(help="Under torchrun, only these ranks.", metavar="R,…")]
MostEvents = Annotated[
    int | None, typer.Option(help="Leave out steps after so many events.", min=1)
]
Dap = Annotated[
    str | None,
    typer.Option(
        help="Wait for an editor at this port (0: any) or socket, which stops the script.",
        metavar="PORT|PATH",
    ),
]
OnScreen = Annotated[
    bool, typer.Option("--screen", help="Where it stops, fill the terminal (gradscope[screen]).")
]


def trace(
    script: Script,
    output: Output = Path("trace.json"),
    module: IsModule = False,
    level: Annotated[str, typer.Option(help="graph, engine, values or full.")] = "engine",
    on: On = "auto",
    steps: Annotated[str | None, typer.Option(help="Only these steps.", metavar="A:B")] = None,
    ranks: Ranks = None,
    max_events: MostEvents = None,
    max_bytes: Annotated[int | None, typer.Option(help="The largest trace.", min=1)] = None,
    native: Native = True,
    check_functions: ChecksFunctions = True,
    source: KeepsSource = True,
    stop_on: StopOn = None,
    breaks: Break = None,
    break_in: BreakIn = None,
    execute: Execute = None,
    post_mortem: PostMortem = False,
    dap: Dap = None,
    screen: OnScreen = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only the script speaks.")] = False,
) -> None:
    """Run a script and record its trace."""
    from gradscope.record.run_script import TraceOptions

    name, *arguments = script
    say = _unsaid if quiet else _say
    waited, level = _waited(stop_on, level, say)
    live, level = _live(
        breaks or [], break_in, execute, level, say, post_mortem, dap, screen, waited
    )
    options = TraceOptions(
        script=name,
        arguments=tuple(arguments),
        module=module,
        output=output,
        level=level,
        on=on,
        steps=steps,
        ranks=ranks,
        max_events=max_events,
        max_bytes=max_bytes,
        native=native,
        check_functions=check_functions,
        source=source,
        debugger=live,
        ends=not gc.isenabled(),  # the process is ours
    )
    outcome = _outcome(options, say)
    if live is not None:
        live.over()
    if waited is not None and outcome.stopped:
        _stopped(waited, outcome.code)
    if outcome.trouble:
        _say(outcome.trouble)
    if outcome.trace is not None and not quiet:
        _say_of(outcome.trace, output.with_name(outcome.trace.name), outcome.elsewhere)
    if options.ends:
        gc.enable()  # what the script has left is not to be frozen
    raise typer.Exit(ExitCode.INTERRUPTED if outcome.interrupted else outcome.code)


def _outcome(options: "TraceOptions", say: "Callable[[str], None]") -> "Outcome":
    """Run the script; where there is too little memory, by becoming its own Python."""
    from gradscope.record.process.memory_limit import alone
    from gradscope.record.run_script import run_script

    try:
        return run_script(options, say=say)
    except NoMemoryError as error:
        _say(f"{error}; the script runs unrecorded")
        sys.stdout.flush()
        command = alone(options.script, options.arguments, module=options.module)
        os.execv(command[0], command)  # noqa: S606


def _live(
    breaks: list[str],
    inside: str | None,
    execute: list[str] | None,
    level: str,
    say: "Callable[[str], None]",
    pm: bool,  # noqa: FBT001
    where: str | None,
    screen: bool,  # noqa: FBT001
    waited: "Waited | None",
) -> "tuple[Live | None, str]":
    """The debugger, if it is to stop somewhere; and the level that this needs, which is said."""
    asks = breaks or inside or pm or where is not None
    if execute and not asks:
        raise UsageError("-x says what to do where the script stops: add --break, or --pm")
    if not asks and waited is None:
        return None, level
    from gradscope.debug.live.made import debugger, level_for

    needed = level_for(breaks, level)
    if needed != level:
        say(f"--break {' or '.join(breaks)} looks at numbers: level {needed} is recorded")
    ends = None if waited is None else waited.ends()
    return debugger(breaks, inside, execute, where, screen=screen, mourns=pm, ends=ends), needed


def _waited(
    names: list[str] | None, level: str, say: "Callable[[str], None]"
) -> "tuple[Waited | None, str]":
    """What --stop-on waits for; the level that this needs, which is said, where it is another."""
    if not names:
        return None, level
    from gradscope.commands.options.stop_on import Waited

    waited = Waited(names)
    needed = waited.level(level)
    if needed != level:
        say(f"--stop-on {waited.words} looks at level {needed}, which is recorded")
    return waited, needed


def _stopped(waited: "Waited", code: int) -> None:
    """What the script was ended for, and that it was."""
    went_on = "" if code == ExitCode.STOPPED else f"; the script went on, and ended with {code}"
    _say(f"found by --stop-on {waited.words}{went_on}")
    _write(f"{line}\n" for line in waited.lines())


def _say_of(trace: Path, shown: Path, elsewhere: str) -> None:
    """Why the script died, below its traceback; what is in the trace, and what to type."""
    from gradscope.render.terminal.cells import PLAIN, UNICODE, can_show
    from gradscope.render.views.recorded import recorded

    with suppress(OSError, ValueError):
        sys.stdout.flush()
    said = recorded(trace, shown, UNICODE if can_show(sys.stderr.encoding) else PLAIN)
    _write(f"{line}\n" for line in said.explanation)
    for line in (*said.lines, *filter(None, [elsewhere]), said.following):
        _say(line)


def _say(text: str) -> None:
    _write([f"gradscope: {safe(text)}\n"])


def _write(lines: Iterable[str]) -> None:
    """Say it where there is somewhere to: a script may have closed the standard error."""
    with suppress(OSError, ValueError):
        sys.stderr.writelines(lines)


def _unsaid(text: str) -> None:
    """Only the script speaks."""
