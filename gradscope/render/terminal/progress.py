"""A progress bar for long work in a terminal; nothing in pipes and files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from gradscope.trace.file.progress import told_to

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 1.0
"""Seconds of work after which the bar is shown."""
_first: list[float] = []


@contextmanager
def progress(file: TextIO, patience: float | None = None) -> Iterator[None]:
    """Show in `file` the progress of the work in the block, if it takes long, and erase it."""
    if not file.isatty():
        yield
        return
    _first[:] = _first or [monotonic()]
    if patience is None:
        patience = max(0.0, PATIENCE - (monotonic() - _first[0]))
    bar = _Bar(file, patience)
    try:
        with told_to(bar.told):
            yield
    finally:
        bar.close()


class _Bar:
    """A bar that a separate thread draws after a delay."""

    def __init__(self, file: TextIO, patience: float) -> None:
        self._file = file
        self._now = ("working", 0, 0)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._closed = False
        self._lock = Lock()
        self._timer = Timer(patience, self._show)
        self._timer.daemon = True
        self._timer.start()

    def told(self, what: str, done: int, whole: int) -> None:
        self._now = (what, done, whole)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=what, completed=done, total=whole or None)

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()

    def _show(self) -> None:
        # Only long work imports these.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        with self._lock:
            if self._closed:
                return
            what, done, whole = self._now
            bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
                console=Console(file=self._file, highlight=False, markup=False, emoji=False),
                transient=True,
            )  # fmt: skip
            self._task = bar.add_task(what, completed=done, total=whole or None)
            bar.start()
            self._bar = bar
            self.told(*self._now)  # the last progress so far
