"""Replaces the probe while a recording is paused, and just after its end."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from gradscope.program_listener import WORKS_FOR_ITSELF
from gradscope.runtime.core import probe
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from gradscope.record.from_runtime.hot.runtime_probe import RuntimeProbe

# Note [In the middle of a call]
# Another thread may be in the middle of a call when the recording pauses or stops. Such a call
# still reports to the watcher that it found at its start; a backward looks it up again, and must
# find one. Before notes are written for the last time, threads get the time of some thread switches
# to report what they had begun.
SWITCHES, MOMENT = 0.03, 1.0  # seconds


class Nobody:
    """Receives replays after the end of a recording, and ignores them."""

    over, reason = True, ""


NOBODY = Nobody()


class PausedProbe:
    """Replaces the probe while nothing is recorded; only steps are followed."""

    look = None

    @property
    def replays(self) -> Any:
        """After the end of the recording, captured steps are replayed without being recorded."""
        return NOBODY if self._ended else None

    def __init__(self, paused: RuntimeProbe, *, ended: bool = False) -> None:
        self._paused = paused
        self._ended = ended  # it will not resume
        self.saw_backward = False
        """Whether a backward ran since this was set to False: a period with a backward is a step.
        """
        self._accumulators: WeakSet[Any] = WeakSet()

    def accumulator(self, node: Any) -> None:
        """Store the new accumulation node of a known leaf."""
        if not self._ended and node.variable.record_nr > self._paused.base:
            self._accumulators.add(node)

    def over(self) -> None:
        """The recording resumes: from now on, gradients of leaves go to their current nodes.

        Nodes are reported already, but not calls: Note [Coming and going] in core/probe.py.
        """
        for node in list(self._accumulators):
            self._paused.accumulator(node)

    def clock(self) -> int:
        return 0

    def backward_begins(self, *args: Any, **more: Any) -> None:
        self.saw_backward = True

    def backward_ends(self, task: Any) -> None:
        """Called when an unrecorded backward ended: it may end a step."""
        if not self._ended and task.parent is None:
            self._paused.catalog.on_task_end(creates=task.create_graph)

    def step_begins(self, optimizer: Any) -> None:
        self._paused.step_begins(optimizer)

    def step_written(self, optimizer: Any, frame: FrameType) -> None:
        self._paused.measured(optimizer)

    def differentiates(self, roots: Sequence[Any]) -> None:
        if not self._ended:
            self._paused.differentiates(roots)

    def step_ends(self, *, nested: bool = False) -> None:
        self._paused.step_ends(nested=nested)

    def span_begins(self, name: str, kind: str = "user") -> int:
        return NONE if kind == WORKS_FOR_ITSELF else self._paused.span_begins(name, kind)

    def span_ends(self, number: int) -> None:
        if number != NONE:
            self._paused.span_ends(number)

    def __getattr__(self, name: str) -> Any:
        return _nothing


def _nothing(*args: Any, **more: Any) -> None:
    """Does nothing, for all other reports during a pause."""


class _Retired:
    probe: PausedProbe | None = None
    changing = threading.RLock()
    """Held while the watcher changes; a signal that ends a recording may arrive meanwhile."""


def _in_a_fork() -> None:
    _Retired.changing = threading.RLock()  # the thread that held it does not exist here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_fork)


def start_watching(watcher: RuntimeProbe) -> None:
    """Start watching."""
    with _Retired.changing:
        probe.watch(watcher)


def pause_watching(watcher: RuntimeProbe) -> PausedProbe:
    """Stop recording, if this watcher is active: another thread may request a pause too late."""
    paused = PausedProbe(watcher)
    with _Retired.changing:
        if probe.here is watcher:
            probe.leave(paused)
    return paused


def resume_watching(watcher: RuntimeProbe, paused: PausedProbe | None) -> None:
    """Resume watching, if nothing else happened since this pause began."""
    with _Retired.changing:
        if paused is None or probe.here is not paused:
            return
        probe.watch(watcher, calls=False)
        paused.over()
        probe.take_callables(watcher)


def stop_watching(watcher: RuntimeProbe) -> None:
    """Stop watching; calls running in other threads have a moment to finish."""
    with _Retired.changing:
        if not others():
            probe.leave(None)
            return
        _Retired.probe = retired = PausedProbe(watcher, ended=True)
        probe.leave(retired)
    time.sleep(SWITCHES)
    timer = threading.Timer(MOMENT, _let_go, (retired,))
    timer.daemon = True
    timer.start()


def others() -> bool:
    """Whether the program has other threads than this one."""
    current = threading.current_thread()
    threads = [each for each in threading.enumerate() if each is not current]
    return any(not each.name.startswith("gradscope ") for each in threads)


def is_watched() -> bool:
    """Whether a recording is under way in this process."""
    with _Retired.changing:
        return probe.here is not None and probe.here is not _Retired.probe


def _let_go(retired: PausedProbe) -> None:
    with _Retired.changing:
        if probe.here is retired:
            probe.leave(None)
        if _Retired.probe is retired:
            _Retired.probe = None  # it would keep all notes of the recording alive
