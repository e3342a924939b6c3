"""The interfaces between a recording, an engine, and the source that watches the engine.

A `WatchableEngine` can be watched; it makes a `RecordingSource`, which takes the notes of one
recording. A source makes rows of what the engine reports and hands them to the session's writer,
with what the session offers to all of them: numbers, source lines (`sites`), where each thread is
(`contexts`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gradscope.record.notes.positions.thread_places import WatchedThreads

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.record.session import Session
    from gradscope.record.stops.stop_places import StopPlaces


class Pause(Protocol):
    """A part of the program that is not recorded."""

    saw_backward: bool
    """Whether a backward ran since this was last set to False; then that part was a step."""


class StoppableProgram(Protocol):
    """A program that can be stopped."""

    def at(self, places: StopPlaces) -> None:
        """Let the program be stopped at these places, as soon as the engine is imported."""

    def reach(self, tensors: Sequence[Any], frame: FrameType | None) -> None:
        """Record the nodes that lead to these tensors, as if this frame called a backward there."""

    def so_far(self, *, running: bool) -> None:
        """Write, right after a flush, what is known about running backwards, for a snapshot.

        `running`: the last node of this thread is still running.
        """


class RecordingSource(Protocol):
    """Watches an engine and collects the notes of one recording.

    It calls `session.backward_ended()` when an outermost graph task has ended, and regularly
    `session.flush_if_worth_it()`. A session flushes only then, in its periodic thread, and at the
    end.
    """

    @property
    def stops(self) -> StoppableProgram:
        """Control of stops of the program."""

    def start(self) -> None:
        """Start watching."""

    def stop(self) -> None:
        """Stop watching; threads in the middle of a call have a moment to finish recording it."""

    def pause(self) -> Pause:
        """Pause; spans and steps are still followed."""

    def resume(self) -> None:
        """Resume."""

    def abandon(self) -> None:
        """Called in a forked child: release everything and write nothing."""

    def flush(self, *, last: bool) -> None:
        """Pass all notes so far to the writer; `last`: this may be the last time.

        Called by one thread at a time.
        """

    def events(self) -> int:
        """Number of events noted so far, including those not written yet."""

    def unseen(self) -> Mapping[str, int]:
        """Descriptions of what could not be recorded, with their counts."""

    def unfinished(self) -> int:
        """Number of graph tasks that were running at the last flush."""

    def leaves(self) -> Sequence[int]:
        """Numbers of the leaves in the trace that still exist, so that later rows may name them."""


class Ended:
    """Replaces a source after its recording: only its counts remain."""

    def __init__(self, source: RecordingSource) -> None:
        self._events, self._unfinished = source.events(), source.unfinished()
        self._unseen = source.unseen()

    def start(self) -> None:
        """Do nothing."""

    stop = resume = abandon = start

    def flush(self, *, last: bool) -> None:
        """Do nothing: everything is written."""

    @property
    def stops(self) -> Ended:
        return self

    def at(self, places: StopPlaces) -> None:
        """Do nothing: the program has ended."""

    def reach(self, tensors: Sequence[Any], frame: FrameType | None) -> None:
        """Do nothing: nothing is observed anymore."""

    def so_far(self, *, running: bool) -> None:
        """Do nothing: everything is written."""

    def pause(self) -> Ended:
        return self

    saw_backward = False

    def events(self) -> int:
        return self._events

    def unseen(self) -> Mapping[str, int]:
        return self._unseen

    def leaves(self) -> Sequence[int]:
        return ()

    def unfinished(self) -> int:
        return self._unfinished


@dataclass(frozen=True, slots=True)
class InScripts:
    """What is needed to run a script on an engine."""

    staged: Callable[[], AbstractContextManager[None]]
    """A context in which the script's `import torch` returns this engine, as in a new process."""

    explain: Callable[[BaseException], None]
    """Adds information of the engine to an exception that ends the script."""

    lent: tuple[str, ...] = ()
    """Prefixes of modules that the script got under other names; removed afterwards."""

    files: tuple[str, ...] = ()
    """Prefixes of files in which an interruption would lose part of an event."""

    when_back: (
        Callable[[FrameType | None, Callable[[int, FrameType | None], Any], int], bool] | None
    ) = None
    """Calls a signal handler when the operation that contains a frame returns to the script.

    Returns False for a frame that is not inside an operation.
    """

    nodes_run_in: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Prefixes of files, and names of functions, that call a node's function, which may fail."""


class WatchableEngine(WatchedThreads, Protocol):
    """An engine that can be recorded."""

    @property
    def machinery(self) -> tuple[str, ...]:
        """Prefixes of files whose frames belong to the engine, not to the user's program."""

    @property
    def in_scripts(self) -> InScripts:
        """What is needed to run a script on it."""

    def is_watched(self) -> bool:
        """Whether it is being recorded in this process."""

    def facts(self, level: str) -> Mapping[str, Any]:
        """The facts about it for the trace's `meta` at this level: `producer`, and more.

        `observed` and `inferred` name event kinds, tables and columns (`table.column`).
        """

    def watch(self, session: Session) -> RecordingSource:
        """The source for this session. Nothing is watched before its `start`."""
