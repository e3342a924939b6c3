"""Buckets in which DistributedDataParallel reduced gradients, by backward."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.trace.schema import NONE, Bucket, Span
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class BucketRun:
    """One bucket in one backward. Its all-reduce ran beside the backward, from begin to end."""

    number: int
    parameters: tuple[int, ...]
    bytes: int
    ready: int
    begin: int  # NONE: a communication hook of the program reduced it
    end: int  # NONE: it did not end
    thread: int  # of its all-reduce

    def beside(self, until: int) -> int:
        """How long its all-reduce ran before this time."""
        return 0 if self.begin == NONE else max(min(self.end, until) - self.begin, 0)


class Buckets:
    """All buckets of a trace."""

    def __init__(self, trace: Trace) -> None:
        rows = [*trace.rows(Bucket)]
        wanted = {row.span for row in rows}
        spans = {row.id: row for row in trace.rows(Span) if row.id in wanted}
        self._by_task: dict[int, list[BucketRun]] = defaultdict(list)
        for row in rows:
            span = spans.get(row.span, Span(NONE, begin=NONE))
            self._by_task[row.task].append(
                BucketRun(
                    row.number, row.parameters, row.bytes, row.ready, span.begin, span.end,
                    span.thread,
                )
            )  # fmt: skip

    def tasks(self) -> Sequence[int]:
        """The backwards that have reduced buckets."""
        return list(self._by_task)

    def of(self, task: int) -> Sequence[BucketRun]:
        """The buckets of a backward, in the order in which they are reduced."""
        return sorted(self._by_task.get(task, ()), key=lambda each: each.number)
