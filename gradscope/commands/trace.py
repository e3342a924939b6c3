"""`gradscope trace`: run a script and record its trace."""

import gc
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.options.arguments import TraceOutput
from gradscope.commands.options.output import safe
from gradscope.commands.options.what_to_record import (
    Around,
    Break,
    BreakIn,
    ChecksFunctions,
    ChecksNodes,
    Dap,
    Every,
    Execute,
    IsModule,
    Keep,
    KeepsArguments,
    KeepsSource,
    KeepsValues,
    Level,
    Measures,
    MostBytes,
    MostEvents,
    Native,
    On,
    OnScreen,
    PostMortem,
    Ranks,
    RanksHere,
    Script,
    Steps,
    StopOn,
)
from gradscope.errors import ExitCode, NoMemoryError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.commands.options.stop_on import Waited
    from gradscope.debug.live.ends import StopOnFinding
    from gradscope.debug.live.stopping import Live
    from gradscope.record.run_script import Outcome, TraceOptions

WIDTH_OF_A_LOG = 200
KEPT_AROUND = 10
"""Number of steps that --around keeps before and after, without --keep."""
Quiet = Annotated[
    bool,
    typer.Option("-q", "--quiet", help="Print only errors and requested output."),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "-v",
        "--verbose",
        help="Also print how much time recording took, and what was not recorded.",
    ),
]


def trace(
    context: typer.Context,
    script: Script,
    output: TraceOutput = Path("trace.json"),
    module: IsModule = False,
    level: Level = "engine",
    on: On = "auto",
    steps: Steps = None,
    every: Every = None,
    keep: Keep = None,
    around: Around = None,
    ranks: Ranks = None,
    ranks_here: RanksHere = None,
    max_events: MostEvents = None,
    max_bytes: MostBytes = None,
    native: Native = True,
    check_functions: ChecksFunctions = True,
    check_nodes: ChecksNodes = None,
    keep_values: KeepsValues = False,
    summary: Measures = True,
    source: KeepsSource = True,
    keeps_arguments: KeepsArguments = True,
    stop_on: StopOn = None,
    breaks: Break = None,
    break_in: BreakIn = None,
    execute: Execute = None,
    post_mortem: PostMortem = False,
    dap: Dap = None,
    screen: OnScreen = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run a script and record its trace."""
    from gradscope.record.run_script import TraceOptions

    _start_ranks(ranks_here or 1, on)
    say = _unsaid if quiet else _say
    waited, level = _waited(stop_on, level, say)
    told, finder, level = _around(around, level, say)
    keep = KEPT_AROUND if around and not keep else keep
    stops = breaks or [], break_in, execute
    live, level = _live(*stops, level, say, post_mortem, dap, screen, waited)
    options = TraceOptions(
        script=script[0], arguments=tuple(script[1:]), module=module, output=output,
        level=level, on=on, steps=steps, every=every, keep=keep, ranks=ranks,
        around=told, finder=finder,
        max_events=max_events, max_bytes=max_bytes, native=native,
        check_functions=check_functions, check_nodes=check_nodes or "",
        keep_values=keep_values, summary=summary, source=source,
        keeps_arguments=keeps_arguments,
        debugger=live, ends=not gc.isenabled(),  # the process is gradscope's own
    )  # fmt: skip
    outcome = _outcome(options, say)
    _say_which_options_the_script_got(context, outcome.code, script[1:])
    if live is not None:
        live.over()
    _sum_up(outcome, output, waited, quiet=quiet, verbose=verbose)
    if options.ends:
        gc.enable()  # do not freeze objects of the script
    raise typer.Exit(ExitCode.INTERRUPTED if outcome.interrupted else outcome.code)


def _start_ranks(count: int, on: str) -> None:
    """Start this command line as several ranks, and end with them; return if this is one."""
    from gradscope.record import engines
    from gradscope.record.process.ranks import this_process
    from gradscope.record.process.start_ranks import by_mpiexec, like_torchrun

    if this_process().is_one_of_several or count == 1:
        return
    if engines.is_own(on):
        by_mpiexec(count)
    raise typer.Exit(like_torchrun(count))


def _say_which_options_the_script_got(
    context: typer.Context, code: int, arguments: list[str]
) -> None:
    """For a script that refused its arguments: some may have been meant for gradscope."""
    known = {name for each in context.command.params for name in (*each.opts, *each.secondary_opts)}
    meant = [each for each in arguments if each.partition("=")[0] in known]
    if code == ExitCode.MISUSED and meant:
        _say(f"the script got {' '.join(meant)}; options of gradscope go before the script")


def _outcome(options: "TraceOptions", say: "Callable[[str], None]") -> "Outcome":
    """Run the script; with too little memory, replace this process by its own Python."""
    from gradscope.record.process.memory_limit import alone
    from gradscope.record.run_script import run_script

    try:
        return run_script(options, say=say)
    except NoMemoryError as error:
        _say(f"{error}; the script runs without recording")
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
    """The debugger, if the script may stop; and the level that it needs, which is reported."""
    asks = breaks or inside or pm or where is not None
    if execute and not asks:
        raise UsageError("-x runs where the script stops: add --break, --break-in or --pm")
    if not asks and waited is None:
        return None, level
    from gradscope.debug.live.made import debugger, level_for

    needed = level_for(breaks, level)
    _say_level(needed, level, f"--break {' or '.join(breaks)}", say)
    ends = None if waited is None else waited.ends()
    return debugger(breaks, inside, execute, where, screen=screen, mourns=pm, ends=ends), needed


def _waited(
    names: list[str] | None, level: str, say: "Callable[[str], None]"
) -> "tuple[Waited | None, str]":
    """The finding for --stop-on; and the level that it needs, which is reported."""
    if not names:
        return None, level
    from gradscope.commands.options.stop_on import Waited

    waited = Waited(names)
    needed = waited.level(level)
    _say_level(needed, level, f"--stop-on {waited.words}", say)
    return waited, needed


def _say_level(needed: str, level: str, option: str, say: "Callable[[str], None]") -> None:
    """Say which level is recorded, if an option needs another one than was requested."""
    if needed != level:
        say(f"recording at level {needed}, which {option} needs")


def _around(
    names: list[str] | None, level: str, say: "Callable[[str], None]"
) -> "tuple[tuple[str, ...], StopOnFinding | None, str]":
    """What --around keeps steps around, what looks for rules, and the level, which is said."""
    from gradscope.commands.options.stop_on import AROUND, Waited

    told = tuple(name for name in names or () if name in AROUND)
    rules = [name for name in names or () if name not in AROUND]
    waited = Waited(rules, "--around") if rules else None
    needed = level if waited is None else waited.level(level)
    if {*told} - {"exception"} and needed in ("graph", "engine"):
        needed = "values"
    _say_level(needed, level, f"--around {' and '.join(names or ())}", say)
    return told, None if waited is None else waited.ends(), needed


def _say_what_stopped(waited: "Waited | None", outcome: "Outcome") -> None:
    """Report what --stop-on found."""
    if waited is None or not outcome.stopped:
        return
    code = outcome.code
    went_on = "" if code == ExitCode.STOPPED else f"; the script went on and ended with {code}"
    _say(f"--stop-on {waited.words} found{went_on}:")
    _write(f"{line}\n" for line in waited.lines(_columns()))


def _sum_up(
    outcome: "Outcome", output: Path, waited: "Waited | None", *, quiet: bool, verbose: bool
) -> None:
    """Print what stopped or crashed the script, what is in the trace, and the next command."""
    _say_what_stopped(waited, outcome)
    if outcome.trouble:
        _say(outcome.trouble)
    if outcome.trace is None or quiet:
        return
    from gradscope.commands.options.summed_up import summed_up
    from gradscope.render.terminal.cells import can_show

    with suppress(OSError, ValueError):
        sys.stdout.flush()
    shown = output.with_name(outcome.trace.name)
    plain = not can_show(sys.stderr.encoding)
    said = summed_up(outcome.trace, shown, plain=plain, width=_columns())
    _write(f"{line}\n" for line in said.explanation)
    details = said.details if verbose else ()
    for line in filter(None, (*said.summary, outcome.elsewhere, *details, said.following)):
        _say(line)


def _columns() -> int:
    """COLUMNS, or the width of the terminal; for a file or a pipe, enough for a whole finding."""
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stderr.fileno()).columns
    return WIDTH_OF_A_LOG


def _say(text: str) -> None:
    _write([f"gradscope: {safe(text)}\n"])


def _write(lines: Iterable[str]) -> None:
    """Write to standard error, if the script has not closed it."""
    with suppress(OSError, ValueError):
        sys.stderr.writelines(lines)


def _unsaid(text: str) -> None:
    """Print nothing: --quiet."""
