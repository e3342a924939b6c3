"""What a recording asks of an engine, and of who watches it: all it knows of either.

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
    """A stretch of the program that is left out."""

    saw_backward: bool
    """Whether a backward ran since this was last set to False: such a stretch was a step."""


class StoppableProgram(Protocol):
    """A program that can be stopped."""

    def at(self, places: StopPlaces) -> None:
        """Let the program be stopped at these, if the engine is there; else as soon as it is."""

    def reach(self, tensors: Sequence[Any], frame: FrameType | None) -> None:
        """Note the nodes that lead to these, as if a backward began there, called on this frame."""

    def so_far(self, *, running: bool) -> None:
        """Hand over, right after a flush, what is known of backwards under way, for one look.

        `running`: the node that ran last on this thread is not over yet.
        """


class RecordingSource(Protocol):
    """Watches an engine and takes the notes of one recording.

    It calls `session.backward_ended()` when an outermost graph task has ended, and now and then
    `session.flush_if_worth_it()`; a session flushes only at such moments, when its thread looks,
    and at the end.
    """

    @property
    def stops(self) -> StoppableProgram:
        """How its program is stopped."""

    def start(self) -> None:
        """Watch from here on."""

    def stop(self) -> None:
        """Watch no longer; what threads are in the middle of has a moment to be noted."""

    def pause(self) -> Pause:
        """Leave out what comes now; spans and steps are followed."""

    def resume(self) -> None:
        """Watch again."""

    def abandon(self) -> None:
        """This process was forked: let go, and write nothing."""

    def flush(self) -> None:
        """Hand all notes so far to the writer. One thread at a time calls this."""

    def events(self) -> int:
        """How many events were noted so far, those included that were not handed on yet."""

    def unseen(self) -> Mapping[str, int]:
        """What could not be seen, in words, and how many times."""

    def unfinished(self) -> int:
        """Graph tasks that had begun and not ended when notes were last flushed."""


class Ended:
    """What is left of a source when its recording is over: how much it saw."""

    def __init__(self, source: RecordingSource) -> None:
        self._events, self._unfinished = source.events(), source.unfinished()
        self._unseen = source.unseen()

    def start(self) -> None:
        """Nothing is watched again."""

    stop = resume = abandon = flush = start

    @property
    def stops(self) -> Ended:
        return self

    def at(self, places: StopPlaces) -> None:
        """The program is over."""

    def reach(self, tensors: Sequence[Any], frame: FrameType | None) -> None:
        """Nothing is looked at any more."""

    def so_far(self, *, running: bool) -> None:
        """All is written."""

    def pause(self) -> Ended:
        return self

    saw_backward = False

    def events(self) -> int:
        return self._events

    def unseen(self) -> Mapping[str, int]:
        return self._unseen

    def unfinished(self) -> int:
        return self._unfinished


@dataclass(frozen=True, slots=True)
class InScripts:
    """What running a script has to know of the engine it runs on."""

    staged: Callable[[], AbstractContextManager[None]]
    """Inside, the script's `import torch` is this engine, as in a process of its own."""

    explain: Callable[[BaseException], None]
    """Says more in an exception that ends the script, if the engine knows more of it."""

    lent: tuple[str, ...] = ()
    """How modules begin that the script got under other names: others forget them afterwards."""

    files: tuple[str, ...] = ()
    """How the files begin in which an interruption would leave half of something untold."""

    when_back: (
        Callable[[FrameType | None, Callable[[int, FrameType | None], Any], int], bool] | None
    ) = None
    """Calls a signal's handler when the operation that a frame is inside of returns to the script.

    It answers False for a frame inside of none.
    """

    nodes_run_in: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """How the files begin in which a node's function is called, which may fail, and its names."""


class WatchableEngine(WatchedThreads, Protocol):
    """What runs forwards and backwards, and can be watched."""

    @property
    def machinery(self) -> tuple[str, ...]:
        """How the files begin whose frames are the engine's, and not the user's program."""

    @property
    def in_scripts(self) -> InScripts:
        """What running a script has to know of it."""

    def is_watched(self) -> bool:
        """Whether somebody watches it in this process."""

    def facts(self, level: str) -> Mapping[str, Any]:
        """What the trace's `meta` says of it at this level: `producer`, and more.

        `observed` and `inferred` name event kinds, tables and columns (`table.column`).
        """

    def watch(self, session: Session) -> RecordingSource:
        """Who will take this session's notes. Nothing is watched before its `start`."""
