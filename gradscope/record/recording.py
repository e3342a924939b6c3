"""A recording: when it starts, pauses and ends, and the facts about the run in its trace."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import orjson

from gradscope.errors import RecordingError, UsageError
from gradscope.record.acts.kept.node_checks import NodeChecks
from gradscope.record.notes.positions.chosen_steps import chosen_steps
from gradscope.record.notes.positions.kept_steps import KeptSteps
from gradscope.record.notes.positions.left_out import LeftOutSteps
from gradscope.record.notes.positions.step_rows import follow_steps
from gradscope.record.notes.sites import working_directory
from gradscope.record.process.children.noticed import Children
from gradscope.record.process.children.started_ranks import StartedRanks
from gradscope.record.process.claim import (
    ALREADY,
    Claim,
    claimed,
    current,
    release,
    taken_over,
)
from gradscope.record.process.looked import looked
from gradscope.record.process.pace import CALM
from gradscope.record.process.periodic_flush import PERIOD, Pulse
from gradscope.record.process.ranks import this_process
from gradscope.record.process.sudden_ends import SuddenEnds
from gradscope.record.process.trace_file import complain
from gradscope.record.script.exception_row import write_exception
from gradscope.record.script.handlers import Handlers
from gradscope.record.script.tracebacks import described
from gradscope.record.session import Session
from gradscope.trace import schema
from gradscope.trace.file.latest.ring import RingWriter
from gradscope.trace.privacy.known import secrets_of
from gradscope.trace.privacy.secrets import masked_arguments
from gradscope.trace.schema.run_facts import ARGUMENTS
from gradscope.trace.text import all_clean
from gradscope.trace.writer import FileWriter, MemoryWriter, Writer

if TYPE_CHECKING:
    from gradscope.record.source import WatchableEngine
    from gradscope.record.stops.stop_places import StopPlaces
    from gradscope.trace.trace import Trace

WRITTEN_EVERY = CALM / 1e9 + PERIOD
"""Seconds after which notes are in the file, however the process ends."""

LEVELS = ("graph", "engine", "values", "full")


@dataclass(frozen=True, slots=True)
class Options:
    """What to record, and how much of it.

    `steps` are the first and last step to record, or several ranges as text, as in "0:9,100:"; with
    `every`, one step in that number is recorded, too. Others run unrecorded and are counted. When
    `max_events` or `max_bytes` is reached, recording pauses at the next step and counts what it
    leaves out. `keep`: a file holds the first steps and this number of the latest ones,
    and those `around` the first "nan" or "inf" and each "spike" of the gradients. `native`:
    read the memory of PyTorch's engine directly. `check_functions`: from level `engine` on, compare
    the backwards of custom Functions with the derivatives of their forwards, which run once more on
    copies when the recording ends. `check_nodes`: compute the gradients of these nodes again;
    `keep_values`: keep what that needs next to the file. `summary`: measure steps, also left-out
    ones, in 1 % of the time. `source` and `keeps_arguments`: store the text of the program, and its
    arguments, in the trace.
    """

    level: str = "engine"
    max_events: int | None = None
    max_bytes: int | None = None
    steps: str | tuple[int, int] | None = None
    every: int | None = None
    keep: int | None = None
    around: tuple[str, ...] = ()
    native: bool = True
    check_functions: bool = True
    check_nodes: str = ""
    keep_values: bool = False
    source: bool = True
    summary: bool = True
    script: str = ""
    arguments: tuple[str, ...] = ()
    keeps_arguments: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise UsageError(f"unknown level '{self.level}'; choose {', '.join(LEVELS)}")
        chosen_steps(self.steps, self.every)  # raises if they are wrong
        NodeChecks.check(self.check_nodes, self.level, keeps=self.keep_values)  # likewise
        if self.keep is not None and self.keep < 0:
            raise UsageError(f"keep must not be negative, but is {self.keep}")


class Recording:
    """A recording. Use it as a context manager, or call `start` and `stop`."""

    def __init__(
        self, writer: Writer, options: Options, engine: WatchableEngine,
        places: StopPlaces | None = None,
    ) -> None:  # fmt: skip
        self.options = options
        self.places = places
        if places is not None:
            places.watch(self)
        self.engine = engine
        self.writer = writer
        self.session: Session | None = None
        self._claim: Claim | None = None
        self.trouble = ""  # why the trace is incomplete, if it could not be written
        self.complain: Callable[[str], None] = complain  # prints `trouble`
        self.look: Callable[[], None] = lambda: None  # called periodically, by a separate thread
        self._is_full = partial(getattr, writer, "is_full", False)
        ring = writer if isinstance(writer, RingWriter) else None
        kept = None if ring is None else KeptSteps(ring, self._put, options.around)
        self.left_out = LeftOutSteps(
            chosen_steps(options.steps, options.every), options.max_events, self._is_full, kept
        )
        self._ends = SuddenEnds(self)
        self._handlers = Handlers()
        self.children = Children(partial(self._put, "children"), StartedRanks.of(self))
        self._pulse: Pulse | None = None

    def start(self) -> Recording:
        """Start recording."""
        claim = claimed(self) or taken_over(self)
        if claim is None:
            raise RecordingError(ALREADY)
        try:
            self._begin()
        except BaseException:
            self.session = None
            release(claim)
            raise
        self._claim = claim
        self._handlers.watch()
        atexit.register(self.stop)  # in case it is not called: the writer is closed later
        self.children.watch()
        if isinstance(self.writer, FileWriter):
            self._ends.watch()
            assert self.session is not None
            self._pulse = Pulse(self._beat)
            self._pulse.start()
        self._on_step(0)
        return self

    def _beat(self) -> None:
        session = self.session
        if session is not None:
            session.flush_if_due(wait=False)
        self.look()

    def _begin(self) -> None:
        """Start watching the engine."""
        if self.engine.is_watched():
            raise RecordingError(ALREADY)
        start = time.perf_counter_ns()
        self._meta(start)
        self.session = Session(
            self.writer, start, self.engine, level=self.options.level, native=self.options.native
        )
        self.session.acts.checks_functions &= self.options.check_functions
        self.session.acts.node_checks = NodeChecks.of(self.options, self.writer)
        self.session.acts.keeps_source &= self.options.source
        self.session.sites.keeps_text = self.options.source
        self.session.places = self.places
        steps, summaries = self.session.contexts.steps, self.session.acts.summaries
        steps.may_be_left_out, steps.on_begin = self.left_out.are_expected, self._on_step
        summaries.keep(self.options, self._is_full)
        follows = partial(self.left_out.step_follows, self.session)
        follow_steps(steps, summaries, self.left_out, follows, self.options.max_bytes)
        self.session.steps.first = partial(self._put, "steps_end_with", "backward")
        self.session.task_ended = self._on_task_end
        self.writer.commit()  # facts about the run are in the file, whatever happens to the program
        if isinstance(self.writer, FileWriter):
            self.writer.settle()
        self.session.source.start()

    def stop(
        self, error: BaseException | None = None, ending: Mapping[str, Any] | None = None
    ) -> None:
        """Stop recording and finish the trace; `ending` goes into its `meta`.

        If it cannot be written, a message is printed. Nothing is raised into the program.
        """
        session = self.session
        if session is None:
            return
        self.session = None
        self._handlers.forget()
        try:
            self._finish(session, error, ending)
        except (RecordingError, OSError) as trouble:
            self.trouble = str(trouble)
            self.complain(self.trouble)
        finally:
            self._release()

    def _release(self) -> None:
        claim, self._claim = self._claim, None  # avoids a reference cycle
        release(claim)

    def _finish(
        self, session: Session, error: BaseException | None, ending: Mapping[str, Any] | None
    ) -> None:
        atexit.unregister(self.stop)
        self._ends.forget()
        self.children.forget()
        if self._pulse is not None:
            self._pulse.stop()
        if str((ending or {}).get("exit", "")).startswith("terminated"):
            session.acts.checks_functions = False  # there is no time to check them
            session.acts.node_checks = None
        if self.places is not None:
            self.places.stop()
        session.stop(error)
        if error is not None:
            write_exception(session, error)
        leaves = session.ids(session.source.leaves())
        try:
            session.close()
            self.left_out.end(leaves)
        finally:
            facts = {"exit": "ok" if error is None else described(error)}
            self._ending(session, facts if ending is None else ending)
            self.writer.close()

    def seal(self, ending: Mapping[str, Any]) -> bool:
        """Complete the file as it is now, in case the process ends. Returns whether it is done."""
        session, writer = self.session, self.writer
        if session is None or not isinstance(writer, FileWriter):
            return False
        return session.flush(partial(self._seal, session, writer, ending), ends=True)

    def _seal(self, session: Session, writer: FileWriter, ending: Mapping[str, Any]) -> None:
        self._ending(session, ending)
        writer.seal()

    def unseal(self) -> None:
        """Continue after `seal`, because the process did not end."""
        if isinstance(self.writer, FileWriter):
            self.writer.unseal()

    def stop_at(self, places: StopPlaces) -> None:
        """Let the program be stopped at these places, from now on or from its start."""
        self.places = places
        places.watch(self)
        if self.session is not None:
            self.session.places = places
            self.session.source.stops.at(places)

    def so_far(self, frame: FrameType | None = None, *, running: bool = False) -> Trace | None:
        """The trace up to now, including running backwards; None: not possible now.

        `frame`: the frame at which the program stands. `running`: the last node is still running.
        """
        session, writer = self.session, self.writer
        if session is None or not isinstance(writer, FileWriter | MemoryWriter):
            return None
        if self.places is not None:
            session.source.stops.reach(self.places.roots, frame)
        more = partial(session.source.stops.so_far, running=running)
        return looked(session, writer, partial(writer.seal, more))

    def as_if_over(self) -> Trace | None:
        """The trace, as if the program had ended without an error now; None: not possible now."""
        session, writer = self.session, self.writer
        if session is None or not isinstance(writer, FileWriter):
            return None
        return looked(session, writer, partial(self._seal, session, writer, {"exit": "ok"}))

    def events(self) -> int:
        """Number of events recorded so far."""
        return 0 if self.session is None else self.session.source.events()

    def _ending(self, session: Session, facts: Mapping[str, Any]) -> None:
        for key, value in facts.items():
            self._put(key, value)
        self._put("own_time", session.own_time.facts(session.start))
        unseen = session.unseen()
        if unseen:
            self._put("unseen", dict(unseen))
        unfinished = session.source.unfinished()
        if unfinished:
            self._put("unfinished", unfinished)
        for key, measured in session.acts.measured().items():
            self._put(key, measured)
        for why, counts in self.left_out.counts():
            self._put(why, counts)

    def abandon(self) -> None:
        """Stop without writing: this is a forked child, and the trace belongs to its parent."""
        session, self.session = self.session, None
        self._handlers.forget()
        if session is not None:
            session.abandon()
        self._release()

    def __enter__(self) -> Recording:  # noqa: PYI034 -- Self is what start() returns
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop(error)

    def trace(self) -> Trace:
        """The recorded trace, for recordings in memory."""
        if not isinstance(self.writer, MemoryWriter):
            raise UsageError("this recording went to a file; open it with gradscope.load(path)")
        return self.writer.trace()

    def step(self, number: int | None = None) -> None:
        """Begin a training step."""
        if self.session is not None:
            self.session.contexts.steps.is_told = True
            self.session.contexts.steps.begin(number)

    def mark(self, name: str, note: str) -> None:
        """Mark this point in time with a name."""
        session = self.session
        if session is None:
            return
        contexts, intern = session.contexts, self.writer.intern
        thread, step = contexts.threads.here().id, contexts.steps.id
        self._marks = getattr(self, "_marks", 0)
        self.writer.block(schema.Mark, {
            "id": [self._marks], "name": [intern(name)], "note": [intern(note)],
            "t": [contexts.now()], "thread": [thread], "step": [step],
        })  # fmt: skip
        self._marks += 1

    def _on_step(self, number: int) -> None:
        session = self.session
        if session is not None:
            session.flush_if_due()
            self.left_out.step_begins(session, number)

    def _on_task_end(self) -> None:
        session = self.session
        if session is not None:
            session.flush_if_due()
            self.left_out.backward_ended(session)

    def _meta(self, start: int) -> None:
        rank, options = this_process(), self.options
        self.writer.hide(secrets_of(options.arguments or getattr(sys, "argv", ())[1:]))
        kept = options.arguments if options.keeps_arguments else ()
        left_out = [ARGUMENTS] * (not options.keeps_arguments)
        left_out += [schema.Source.TABLE] * (not options.source)
        facts = {
            "level": self.options.level,
            "script": self.options.script,
            "arguments": masked_arguments(kept),
            "cwd": working_directory(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            **rank.facts(),
            "clock_base": time.time_ns() - (time.perf_counter_ns() - start),
            "python": sys.version.split()[0],
            "written_every": WRITTEN_EVERY,
            **({"max_bytes": options.max_bytes} if options.max_bytes else {}),
            **self.engine.facts(self.options.level),
            "left_out": left_out + [*schema.SUMMARIES] * (not options.summary),
            **self.options.extra,
        }
        for key, value in facts.items():
            self._put(key, value)

    def _put(self, key: str, value: Any) -> None:
        text = orjson.dumps(all_clean(value)).decode()
        row = {"key": [self.writer.intern(key)], "value": [self.writer.intern(text)]}
        self.writer.block(schema.Meta, row)


def _leave_to_the_parent() -> None:
    recording = current()
    if recording is not None:
        recording.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)
