"""The threads of a program, and the position of each: its modules, phases and spans."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from gradscope.record.notes.log import columns_of, take_all
from gradscope.trace.schema import NONE, Thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gradscope.trace.writer import Writer


class WatchedThread(Protocol):
    """The state of one thread in an engine. It is hashable and unique to its thread."""

    thread_id: int  # threading.get_ident()
    context: int  # the session's number for the thread's position; 0: unknown
    task: Any  # the graph task it is running (with its `record_nr`), or None


class Local(Protocol):
    """A `threading.local`."""

    @property
    def state(self) -> WatchedThread:
        """The state of the calling thread, created on first use."""


class WatchedThreads(Protocol):
    """The threads of an engine."""

    @property
    def local(self) -> Local:
        """The thread-local state."""

    @property
    def contexts_name_steps(self) -> bool:
        """Whether contexts include a step; if not, the step follows from the time."""

    def threads(self) -> Iterable[WatchedThread]:
        """The states of all known threads that are alive."""


class ThreadPlace:
    """One thread's position: stacks of modules, of steps of optimizers, of spans."""

    __slots__ = ("forwards", "id", "modules", "optimizers", "spans", "step")

    def __init__(self, id: int) -> None:
        self.id = id
        self.step = NONE
        self.forwards: dict[int, int] = {}  # this step's numbers, by module
        self.modules: list[int] = []
        self.optimizers: list[int] = []  # the spans of their steps
        self.spans: list[int] = []

    @property
    def module(self) -> int:
        """The innermost module; NONE if there is none."""
        return self.modules[-1] if self.modules else NONE


class ThreadPlaces:
    """The position of each known thread, and the rows of these threads."""

    def __init__(self, writer: Writer, local: Local, *, rank: int) -> None:
        self._writer = writer
        self._rank = rank
        self.local = local
        self.met: Callable[[], object] | None = None
        """Called in a new thread."""
        # By state: the system reuses the ids of threads that have ended.
        self.known: dict[WatchedThread, ThreadPlace] = {}
        self._ids = count()
        self._placing = threading.Lock()
        self._new: list[tuple[int, int, int, int]] = []

    def of(self, state: WatchedThread) -> ThreadPlace:
        """A thread's position."""
        return self.known.get(state) or self._meet(state)

    def here(self) -> ThreadPlace:
        """The calling thread's position."""
        state = self.local.state
        return self.known.get(state) or self._meet(state)

    def _meet(self, state: WatchedThread) -> ThreadPlace:
        with self._placing:
            found = self.known.get(state)
            if found is None:
                made = ThreadPlace(next(self._ids))
                name, native = _described(state)
                self._new.append((made.id, self._writer.intern(name), native, self._rank))
                found = self.known[state] = made
                if self.met is not None and state.thread_id == threading.get_ident():
                    self.met()
        return found

    def lane(self, name: str) -> int:
        """The id of a new row for work that belongs to no known thread."""
        with self._placing:
            id = next(self._ids)
            self._new.append((id, self._writer.intern(name), 0, self._rank))
        return id

    def idents(self) -> dict[int, int]:
        """The `threading.get_ident()` of each thread, including those that have ended."""
        return {place.id: state.thread_id for state, place in list(self.known.items())}

    def names(self) -> dict[int, str]:
        """The names of threads that are alive."""
        found = {place.id: _described(state)[0] for state, place in list(self.known.items())}
        return {id: name for id, name in found.items() if name}

    def flush(self) -> None:
        """Pass new threads to the writer."""
        new = take_all(self._new)
        if new:
            self._writer.block(Thread, columns_of(("id", "name", "native", "rank"), new))


def _described(state: WatchedThread) -> tuple[str, int]:
    """A thread's name and the system's id."""
    system: tuple[str, int] | None = getattr(state, "system", None)
    if system is not None:  # asking Python would make it a thread of `threading`
        return system
    thread = _thread(state.thread_id)
    return ("", 0) if thread is None else (thread.name, thread.native_id or 0)


def _thread(ident: int) -> threading.Thread | None:
    if ident == threading.get_ident():
        return threading.current_thread()
    return next((each for each in threading.enumerate() if each.ident == ident), None)
