"""Records what ranks do together as reported by the runtime: implements `RankListener`."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from gradscope.record.from_runtime.cold.rank_rows import RankRows
from gradscope.trace.schema import NONE, Phase
from gradscope.trace.schema.sharding import GOES_ON
from gradscope.watch.listener import Exchange, RankGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from gradscope.record.from_runtime.cold.catalog import Catalog
    from gradscope.record.session import Session

NAME, REDUCES = "all_reduce", "DistributedDataParallel"


class ReadyBucket(NamedTuple):
    """What is known of a bucket when it is ready."""

    number: int
    passed: Exchange
    stack: int
    task: int
    parameters: list[int]
    size: int
    ready: int
    spans: list[int]  # of its all-reduce, once that has begun


class RankNotes:
    """Records collectives as spans, and buckets of gradients."""

    def __init__(
        self, session: Session, catalog: Catalog, dtype_name: Callable[[Any], str]
    ) -> None:
        self._session, self._number_of = session, catalog.number_of

        def text(dtype: Any) -> int:
            return session.writer.intern("" if dtype is None else dtype_name(dtype))

        self.ranks = RankRows(session.writer, catalog.number_of_early, text)
        self.ranks.site_of, self.ranks.ids = session.sites.of, session.ids

    def exchanges(
        self, token: Any, group: Any, shape: Sequence[int], dtype: Any, frame: FrameType,
        name: str, caller: str, makes: tuple[int, ...],
    ) -> None:  # fmt: skip
        among = None if group is None else RankGroup(*group)
        passed = Exchange(among, shape, dtype, frame, name, caller=caller, makes=makes)
        self.ranks.exchanges(token, passed)

    def replicated(self, group: Any, parameters: Sequence[Any]) -> None:
        self.ranks.replicated(RankGroup(*group), parameters)

    def bucket_ready(
        self, number: int, group: Any, flat: Any, parameters: Sequence[Any], reduces: bool,
        frame: FrameType,
    ) -> ReadyBucket:  # fmt: skip
        session = self._session
        contexts, array = session.contexts, flat._array
        ready = ReadyBucket(
            number,
            Exchange(RankGroup(*group), array.shape, array.dtype, frame, NAME, caller=REDUCES),
            session.sites.of(frame), contexts.task_of(contexts.threads.local.state),
            [self._number_of(each) for each in parameters], array.nbytes,
            perf_counter_ns() - session.start, [],
        )  # fmt: skip
        if not reduces:
            self._note(ready, NONE)
        return ready

    def bucket_reduce_begins(self, token: ReadyBucket) -> None:
        span = self._session.contexts.spans.begin(f"{NAME}{GOES_ON}", Phase.COLLECTIVE)
        token.spans.append(span)
        self.ranks.exchanges_at(span, token.passed, token.stack, token.number, token.parameters)
        self._note(token, span)

    def bucket_reduce_ends(self, token: ReadyBucket) -> None:
        if token.spans:
            self._session.contexts.spans.end(token.spans.pop())

    def _note(self, ready: ReadyBucket, span: int) -> None:
        self.ranks.bucket(span, ready.number, ready.task, ready.parameters, ready.size, ready.ready)
