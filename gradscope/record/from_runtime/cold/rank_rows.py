"""Rows of what ranks do together: groups, collectives, parameters that are kept equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradscope.record.notes.log import columns_of, take_all
from gradscope.record.process.group_rows import GroupRows
from gradscope.trace.schema import NONE, Bucket, Collective, Replicated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from gradscope.trace.writer import Writer
    from gradscope.watch.listener import Exchange, RankGroup


COLLECTIVE = (
    "span", "group", "stack", "shape", "dtype", "caller", "bucket", "makes", "holds",
    "parameters",
)  # fmt: skip


def _unknown(_: object) -> int:
    return NONE


def _as_they_are(numbers: Sequence[int]) -> Sequence[int]:
    return numbers


class RankRows:
    """Collects these rows for one recording."""

    def __init__(
        self, writer: Writer, number_of: Callable[[Any], int], dtype_text: Callable[[Any], int]
    ) -> None:
        self._writer = writer
        self._number_of = number_of
        self._dtype_text = dtype_text
        self.site_of: Callable[[FrameType | None], int] = _unknown
        self.ids: Callable[[Sequence[int]], Any] = _as_they_are
        """The ids of tensors with these numbers."""
        self._groups = GroupRows(writer)
        self._replicated: list[tuple[int, list[int]]] = []
        self._collectives: list[tuple[Any, ...]] = []
        self._buckets: list[tuple[int, int, int, list[int], int, int]] = []

    def exchanges(self, token: Any, passed: Exchange) -> None:
        """A collective, whose span has this token, began."""
        self.exchanges_at(token, passed, self.site_of(passed.frame))

    def exchanges_at(
        self,
        token: Any,
        passed: Exchange,
        stack: int,
        bucket: int = NONE,
        parameters: Sequence[int] = (),
    ) -> None:
        """The same, for a line that is known already. `bucket`: its number, if it is one."""
        group = NONE if passed.group is None else self._groups.number(passed.group)
        dtype, intern = self._dtype_text(passed.dtype), self._writer.intern
        holds = "" if bucket == NONE else "gradients"
        self._collectives.append((
            token, group, stack, tuple(passed.shape), dtype, intern(passed.caller), bucket,
            passed.makes, intern(holds), [*parameters],
        ))  # fmt: skip

    def replicated(self, group: RankGroup, parameters: Sequence[Any]) -> None:
        """Parameters that are kept equal on all ranks of a group."""
        numbers = [self._number_of(each) for each in parameters]
        self._replicated.append((self._groups.number(group), numbers))

    def bucket(
        self, span: int, number: int, task: int, parameters: list[int], size: int, ready: int
    ) -> None:
        """Gradients of these parameters, by their numbers, were reduced together."""
        self._buckets.append((span, number, task, parameters, size, ready))

    def flush_ranks(self) -> None:
        """Pass new rows to the writer."""
        self._groups.flush()
        replicated = [(group, self._ids(several)) for group, several in take_all(self._replicated)]
        self._put(Replicated, ("group", "parameters"), replicated)
        collectives = [(*row[:-1], self._ids(row[-1])) for row in take_all(self._collectives)]
        self._put(Collective, COLLECTIVE, collectives)
        buckets = [
            (span, number, task, self._ids(parameters), size, ready)
            for span, number, task, parameters, size, ready in take_all(self._buckets)
        ]
        names = "span", "number", "task", "parameters", "bytes", "ready"
        self._put(Bucket, names, buckets)

    def _ids(self, numbers: Sequence[int]) -> list[int]:
        return [int(each) for each in self.ids(numbers)]

    def _put(self, row: Any, names: Sequence[str], waiting: list[Any]) -> None:
        rows = take_all(waiting)
        if rows:
            self._writer.block(row, columns_of(names, rows))
