"""`gradscope trace`: run a script as `python` would, and record what its engine does."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Protocol

from gradscope.errors import ExitCode, GradscopeError, NoMemoryError
from gradscope.record.acts.kept.node_checks import check_engine
from gradscope.record.engines import AUTO, choice, named
from gradscope.record.notes.sites import is_ours, working_directory
from gradscope.record.process.instances import instances
from gradscope.record.process.memory_limit import is_limited, leaves_too_little
from gradscope.record.process.ranks import this_process, wanted, writing_to
from gradscope.record.process.trace_file import MOST_BYTES, trace_file
from gradscope.record.recording import Options, Recording
from gradscope.record.script import tracebacks
from gradscope.record.script.exits import Exits, say_why
from gradscope.record.script.handlers import silence
from gradscope.record.script.lowest_frame import ending_above
from gradscope.record.script.main_thread import main_thread_has_ended
from gradscope.record.script.recursion import TRIED, as_deep_as_alone, room
from gradscope.record.script.restore_process import as_before
from gradscope.record.script.script_program import (
    ScriptProgram,
    folder_of,
    from_module,
    from_script,
    stage,
)
from gradscope.record.script.signals import Signals, Stopped, handled
from gradscope.record.script.unimported import unimported
from gradscope.record.stops.ending import raised_at_next_line, spare_signal, tell_main_thread
from gradscope.record.stops.finder import Finder
from gradscope.record.stops.stop_places import StopPlaces
from gradscope.trace.shortcomings import ran_elsewhere
from gradscope.trace.writer import FileWriter

INTERRUPTED = 130


class ScriptDebugger(Protocol):
    """The debugger, which can stop the script."""

    places: StopPlaces
    """The places at which the script can be stopped."""

    at_places: bool
    """Whether the script can be stopped at all."""

    @property
    def ends(self) -> bool:
        """Whether it ended the script, or would have, because the event of `--stop-on` occurred."""

    def begins(self, recording: Recording, end: Callable[[str], None]) -> None:
        """Called before the script begins; raises Stopped if it must not begin.

        `end` ends the script, from any thread; its argument says what ended it.
        """

    def ended(self) -> bool:
        """Called after the script has ended and before its trace has.

        Returns whether only the end of the script shows that the event of `--stop-on` occurred.
        """

    def dies(self, path: Path, error: BaseException) -> None:
        """Called when the script has ended with this exception; its trace is at `path`."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The options of `gradscope trace`."""

    script: str
    arguments: tuple[str, ...] = ()
    module: bool = False  # `script` is the name of a module
    output: Path = Path("trace.json")
    level: str = "engine"
    on: str = AUTO
    steps: str | None = None  # "3:7", "3:", ":7" or "3", or several of them: "0:9,100"
    every: int | None = None  # one step in N
    around: tuple[str, ...] = ()  # keep steps around these: "nan", "inf", "spike"
    finder: Finder | None = None  # and around what this finds
    keep: int | None = None  # this number of the latest steps; None: when the trace is full
    ranks: str | None = None  # "0,2"
    max_events: int | None = None
    max_bytes: int | None = None  # None: MOST_BYTES; 0: no limit
    native: bool = True
    check_functions: bool = True
    check_nodes: str = ""
    keep_values: bool = False
    summary: bool = True
    source: bool = True
    keeps_arguments: bool = True
    debugger: ScriptDebugger | None = None
    ends: bool = False  # the process ends with the script
    unrecorded: Callable[[], None] | None = None  # called before it; nothing is recorded then


@dataclass(frozen=True, slots=True)
class Ending:
    """How the script ended."""

    code: int
    words: str = "ok"
    error: BaseException | None = None  # the uncaught exception
    raised_at: str = ""  # the line in gradscope that raised it

    @property
    def facts(self) -> dict[str, Any]:
        """The facts in the trace's `meta`."""
        facts = {"exit": self.words, "exit_code": self.code}
        return {**facts, "raised_at": self.raised_at} if self.raised_at else facts


BY_CTRL_C = Ending(INTERRUPTED, "interrupted (KeyboardInterrupt)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of running a script."""

    code: int  # exit code of the script
    trace: Path | None = None  # None: it could not begin, or this is a child it forked
    trouble: str = ""  # why the trace may be incomplete
    elsewhere: str = ""  # child processes that are not in the trace
    stopped: bool = False  # the event of --stop-on occurred
    interrupted: bool = False  # by Ctrl-C


def run_script(options: TraceOptions, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run and record a script. Its exceptions are shown as Python shows them.

    `say` receives messages to print before it begins.

    Raises UsageError and RecordingError for errors that are found before it begins.
    """
    engine = named(options.on)
    known = engine.in_scripts
    settings = _settings(options)
    rank, ranks = this_process(), wanted(options.ranks)
    check_engine(settings, engine.facts(settings.level))  # which raises for an unknown level
    with ExitStack() as stack:
        stack.enter_context(as_before(ends=options.ends))
        if options.module:
            folder, argv = working_directory(), ["-m", *options.arguments]
        else:
            folder, argv = folder_of(options.script), [options.script, *options.arguments]
        main = stack.enter_context(stage(folder, argv, known.lent, ends=options.ends))
        exits = Exits(folder)
        stack.enter_context(exits.noting())
        stack.enter_context(known.staged())
        stack.enter_context(tracebacks.explained_by(known.explain))
        stack.enter_context(tracebacks.thread_tracebacks())
        stack.enter_context(ending_above([_executed, Exits.fulfil, tracebacks.show]))
        program = _program(options)
        if not isinstance(program, ScriptProgram):
            return Outcome(_shown(program).code)
        argv[0] = program.name
        main.__dict__.update(program.attributes)
        if options.unrecorded is not None or (ranks is not None and rank.number not in ranks):
            return Outcome(_run(program, main.__dict__, exits, options.unrecorded or _nothing).code)
        source = program.attributes.get("__file__")
        rank = writing_to(options.output)
        output = rank.file(options.output)
        writer, said = trace_file(output, source, _room(options), options.keep)
        if said:
            say(said)
        stops = options.debugger
        places = stops.places if stops is not None and stops.at_places else None
        recording = Recording(writer, settings, engine, places)
        if rank.number == min(ranks or {0}):
            for line in filter(None, (choice(options.on), rank.said(options.output))):
                say(line)
        return _recorded(program, main, recording, writer, exits, options)


def _program(options: TraceOptions) -> ScriptProgram | BaseException:
    """The program; or the exception on loading it: a syntax error, or a package that raises."""
    try:
        return (from_module if options.module else from_script)(options.script)
    except GradscopeError:
        raise
    except BaseException as error:  # noqa: BLE001  the user's package may raise anything
        return error


def _settings(options: TraceOptions) -> Options:
    return Options(
        level=options.level,
        max_events=options.max_events,
        max_bytes=_room(options),
        steps=options.steps,
        every=options.every,
        keep=options.keep,
        around=options.around,
        native=options.native,
        check_functions=options.check_functions,
        check_nodes=options.check_nodes,
        keep_values=options.keep_values,
        summary=options.summary,
        source=options.source,
        script=options.script,
        arguments=options.arguments,
        keeps_arguments=options.keeps_arguments,
        extra=_again(options),
    )


def _room(options: TraceOptions) -> int | None:
    return MOST_BYTES if options.max_bytes is None else options.max_bytes or None


def _again(options: TraceOptions) -> dict[str, str]:
    """Facts without which the command that records this program again would be another one."""
    facts = {} if options.on == AUTO else {"on": options.on}
    return {**facts, "run_as": "module"} if options.module else facts


def _recorded(
    program: ScriptProgram,
    main: ModuleType,
    recording: Recording,
    writer: FileWriter,
    exits: Exits,
    options: TraceOptions,
) -> Outcome:
    process, debugger = os.getpid(), options.debugger
    recording.complain = _unsaid
    stopper = None if debugger is None else spare_signal()

    def finish(ending: Ending) -> None:
        recording.stop(ending.error, ending.facts)

    def terminated(number: signal.Signals) -> None:
        finish(_killed(number))

    def seal(number: signal.Signals) -> None:
        recording.seal(_killed(number).facts)

    signals = Signals(__file__, recording.engine.in_scripts, terminated, seal)
    recording.look = signals.look
    with handled(signals, stopper):
        _start(recording, writer)
        if options.finder is not None and (kept := recording.left_out.kept) is not None:
            options.finder.watch(recording, kept.keep_all)
        ends = partial(_stop, recording, signals, stopper)
        begin = _nothing if debugger is None else partial(debugger.begins, recording, ends)
        ending = _run(program, main.__dict__, exits, begin)
        signals.finishing = True
        silence()
        if options.ends and gc.isenabled():
            gc.disable()  # objects the script has left are collected when Python shuts down
            atexit.register(gc.enable)
        if debugger is not None and debugger.ended() and ending.code == 0:
            ending = Ending(int(ExitCode.STOPPED), "ended by --stop-on")
        if options.finder is not None:
            options.finder.rest()
        finish(ending)
    trouble = recording.trouble
    if os.getpid() != process:
        return Outcome(ending.code, None, trouble)
    if debugger is not None and ending.error is not None and not trouble:
        debugger.dies(writer.path, ending.error)
    elsewhere = ran_elsewhere({"children": recording.children.groups()})
    stopped = debugger is not None and debugger.ends
    interrupted = ending == BY_CTRL_C
    return Outcome(ending.code, writer.path, trouble, elsewhere, stopped, interrupted)


def _start(recording: Recording, writer: FileWriter) -> None:
    """Start recording, unless a limit on memory leaves too little for that."""
    try:
        recording.start()
        if not leaves_too_little():
            return
    except (MemoryError, OSError, ImportError):
        if not is_limited():
            raise
    writer.path.unlink()
    raise NoMemoryError("the limit on memory (ulimit -v, say) leaves too little for a recording")


def _stop(recording: Recording, signals: Signals, stopper: signal.Signals | None, by: str) -> None:
    """End the script, if possible."""
    signals.stopped_by = by
    machinery = recording.engine.machinery

    def is_scripts(code: CodeType) -> bool:
        return not (
            is_ours(code) or tracebacks.is_below(code) or code.co_filename.startswith(machinery)
        )

    if not raised_at_next_line(Stopped(by), is_scripts) and stopper is not None:
        tell_main_thread(stopper)


def _run(
    program: ScriptProgram, namespace: dict[str, Any], exits: Exits, begin: Callable[[], None]
) -> Ending:
    """Run the program, wait for its remaining threads, and run its exit functions."""
    threads = set(threading.enumerate())
    ending = _shown(_executed(program, namespace, begin))
    try:
        with main_thread_has_ended():
            _wait_for_threads(threads)
            exits.fulfil()
    except KeyboardInterrupt as interruption:
        error = interruption
    else:
        return ending
    return _shown(error)


def _unsaid(_: str) -> None:
    """Print nothing: the text is part of the outcome."""


def _nothing() -> None:
    """Do nothing when the program begins."""


def _executed(
    program: ScriptProgram, namespace: dict[str, Any], begin: Callable[[], None]
) -> BaseException | None:
    """Run the program. Returns the exception it raised."""
    try:
        scope: dict[str, Any] = {"room": room}
        exec(TRIED, scope)  # noqa: S102
        with as_deep_as_alone(scope["found"]):
            begin()
            with unimported():
                exec(program.code, namespace)  # noqa: S102  running the script is what this is for
    except BaseException as error:  # noqa: BLE001  whatever it is, the script ended with it
        return error
    finally:
        if namespace.get("__spec__") is None:
            _flush()
    return None


def _flush() -> None:
    """Flush what a script has printed, as Python does at the end of a file."""
    for stream in (sys.stderr, sys.stdout):
        with suppress(BaseException):  # a closed stream, a full disk
            stream.flush()


def _shown(error: BaseException | None) -> Ending:
    """The ending of a script with this exception, which is printed to stderr as by Python."""
    if error is None:
        return Ending(0)
    if isinstance(error, Stopped):
        return Ending(int(ExitCode.STOPPED), f"stopped {error.by}")
    if isinstance(error, SystemExit):
        return _exited(error.code)
    place = tracebacks.raised_at(error)
    tracebacks.show(error)
    if isinstance(error, KeyboardInterrupt):
        return BY_CTRL_C
    return Ending(1, tracebacks.described(error), error, place)


def _killed(number: signal.Signals) -> Ending:
    return Ending(128 + number, f"terminated by {number.name}")


def _exited(code: object) -> Ending:
    """The ending of a script that called sys.exit(code)."""
    if code is None or (isinstance(code, int) and code == 0):
        return Ending(0)
    if isinstance(code, int):
        return Ending(int(code), f"exit code {int(code)}")
    return Ending(1, f"exit code 1: {say_why(code)}")


def _wait_for_threads(before: Collection[threading.Thread]) -> None:
    """Wait as Python does before it ends: for all threads that are not daemons."""
    asked = False
    while left := [t for t in threading.enumerate() if t not in before and not t.daemon]:
        if not asked:
            asked = True
            for each in instances(Executor):  # their threads wait for work until shutdown
                each.shutdown()
            continue
        for thread in left:
            thread.join()
