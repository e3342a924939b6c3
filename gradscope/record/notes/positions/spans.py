"""Named spans of time: activities of the program or of gradscope."""

from __future__ import annotations

from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING

from gradscope.record.notes.log import Log, put
from gradscope.trace.schema import NONE, Phase, Span

if TYPE_CHECKING:
    from gradscope.record.notes.positions.thread_places import ThreadPlaces
    from gradscope.record.notes.positions.training_steps import Steps
    from gradscope.trace.writer import Writer

COLUMNS = "id", "name", "phase", "parent", "thread", "step", "begin", "end"


class Spans:
    """The spans that are open in each thread, and the rows of all."""

    def __init__(self, writer: Writer, start: int, threads: ThreadPlaces, steps: Steps) -> None:
        self._writer = writer
        self.start = start
        self._threads = threads
        self._steps = steps
        self.ids = count()
        self._new, self._ended = Log(len(COLUMNS)), Log(2)
        self._texts: dict[str, int] = {}  # the names, interned

    def begin(self, name: str, phase: Phase = Phase.USER) -> int:
        """Open a span in the calling thread. Returns its id, for `end`."""
        place = self._threads.here()
        number = next(self.ids)
        parent = place.spans[-1] if place.spans else NONE
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = self._writer.intern(name)
        now = perf_counter_ns() - self.start
        self._new.note(number, text, phase, parent, place.id, self._steps.id, now, NONE)
        place.spans.append(number)
        return number

    def end(self, number: int) -> None:
        """Close a span of the calling thread."""
        spans = self._threads.here().spans
        if number in spans:
            spans.remove(number)
        self._ended.note(number, perf_counter_ns() - self.start)

    def add(self, name: str, phase: Phase, thread: int, begin: int, end: int) -> int:
        """A span that was noticed later; `end`: NONE if it is not known yet, see `ends`."""
        number = next(self.ids)
        step = int(self._steps.at(begin))
        text = self._writer.intern(name)
        self._new.note(number, text, phase, NONE, thread, step, begin, end)
        return number

    def ends(self, number: int, end: int) -> None:
        """Note the end of a span that was added."""
        self._ended.note(number, end)

    def finish(self) -> None:
        """Close open spans at the end of the recording."""
        now = perf_counter_ns() - self.start
        for place in list(self._threads.known.values()):
            for span in place.spans:
                self._ended.note(span, now)
            place.spans.clear()

    def flush(self) -> None:
        """Pass new spans, and ends of others, to the writer."""
        put(self._writer, Span, COLUMNS, self._new.take())
        put(self._writer, Span, ("id", "end"), self._ended.take(), amend=True)
