"""A PyTorch program that can be stopped, and what is known while it is stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gradscope.errors import from_the_line_of
from gradscope.record.stops.stop_places import Stoppable, StopPlaces
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from gradscope.record.from_pytorch.source import PyTorchSource


class PyTorchStops:
    """The stops of one recording."""

    def __init__(self, source: PyTorchSource) -> None:
        self._source = source

    def at(self, places: StopPlaces) -> None:
        """Start stops in PyTorch, if it is imported already."""
        if self._source.watcher is not None:
            from gradscope.watch.hooks.watched import Own
            from gradscope.watch.values.arrays import numbers

            self._source.session.module_paths = self._source.listener.modules.paths
            engine = Stoppable(Own, from_the_line_of, numbers, self._aside)
            places.start(sys.modules["torch"], engine)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """A context in which calls and backwards are not recorded."""
        watcher = self._source.watcher
        if watcher is None:
            yield
            return
        with watcher.looking_away():
            yield

    def reach(self, tensors: Sequence[Any], frame: FrameType | None) -> None:
        """Find the nodes that lead to these tensors, before a backward starts from them."""
        source = self._source
        if source.watcher is not None:
            is_machinery = source.session.sites.is_machinery
            source.listener.tensors.names.look(frame, is_machinery, source.listener.modules.named)
            source.faults.guarded("a graph was looked at", source.watcher.reach, tensors)

    def so_far(self, *, running: bool) -> None:
        """Write rows of running backwards of this thread, right after a flush."""
        source, watcher = self._source, self._source.watcher
        if watcher is None or watcher.runs is None:
            return
        all_ran = watcher.runs.so_far(running=running)
        for task in source.listener.tasks.so_far(source.listener.local.state.task, all_ran):
            if len(task.asked.roots) > 1:
                if watcher.why_hooks and task.ran is not None:
                    task.ran.after(task.asked.sequence_nr)
                ran = None if task.ran is None else task.ran.runs()
                number = int(ran.sequence[0]) if ran and len(ran.sequence) else NONE
                source.listener.graphs.root(task, number)
        source.listener.graphs.flush()
        source.listener.values.so_far(source.listener.calls)
