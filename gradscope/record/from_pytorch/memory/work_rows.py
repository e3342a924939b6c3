"""Rows of works: what process groups did, and collectives that PyTorch called in C++.

# Note [Whose work]
A work does not say which call made it. It belongs to the first earlier call, of the same kind and
with as many elements, that has none yet. A call that sends objects makes several works, until the
next call begins; the first has the row. A work without a call was called in C++: in a backward by a
bucket of DistributedDataParallel, if the next bucket of a model has as many elements. A model that
has made its buckets again says so a step later: until then, works that fit no bucket are held back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradscope.record.from_pytorch.memory.storage_rows import put
from gradscope.record.notes.log import take_all
from gradscope.trace.schema import NONE, BackendWork, Phase
from gradscope.trace.schema.sharding import GOES_ON
from gradscope.watch.values.ring_rows import HEAD

if TYPE_CHECKING:
    from gradscope.record.notes.positions.contexts import Contexts
    from gradscope.trace.writer import Writer
    from gradscope.watch.called.ranks.buckets import ModelBuckets
    from gradscope.watch.called.ranks.works import SeenWork, WorkObserver

COLUMNS = (
    "span", "group", "stack", "shape", "dtype", "caller", "bucket", "holds", "parameters",
    "reduces", "held_as", "makes",
)  # fmt: skip
WORK_COLUMNS = "span", "begin", "end", "norms", "sums", "bad", "hashes"

KINDS = ("all_reduce", "broadcast", "reduce_scatter", "reduce", "all_gather", "gather", "scatter",
         "all_to_all", "barrier")  # fmt: skip
"""Kinds of works and calls; of those with a common beginning, the longest first."""

SAME_TENSOR = ("all_reduce", "broadcast", "reduce")
"""Kinds whose works are given the tensor that the call is given."""

DONE_AS = "reduce_scatter", "all_reduce"
"""A kind of calls, and the kind of works that gloo makes for some of them."""

REPLICATES, UNKNOWN = "DistributedDataParallel", "PyTorch"
LANE = "collectives"
MOST_CALLS = 256
"""Number of calls that are kept, of those that have no work."""


MOST_HELD = 64
"""Number of works that are held back until a model says which buckets it has now."""


class CalledCollective(NamedTuple):
    """A collective that was called in Python."""

    span: int
    begin: int
    name: str
    shape: tuple[int, ...]
    has_work: bool = False  # the first of several, of a call that sends objects


@dataclass
class ReplicatedModel:
    """A model whose gradients are averaged in buckets."""

    group: int
    parameters: list[int]
    buckets: ModelBuckets
    next: dict[int, int] = field(default_factory=dict)
    """The bucket that is reduced next: of the buckets at first, and of those now."""


class Made(NamedTuple):
    """What is known of a collective that was called in C++."""

    group: int
    stack: int
    caller: str
    bucket: int
    parameters: list[int]


class WorkRows:
    """Collects rows of works for one recording."""

    def __init__(self, writer: Writer, contexts: Contexts, observer: WorkObserver) -> None:
        self._writer = writer
        self._contexts = contexts
        self._observer = observer
        self._start = contexts.spans.start
        self._called: list[CalledCollective] = []
        self._models: list[ReplicatedModel] = []
        self._wrapping: list[tuple[int, int, int]] = []
        """Stack, begin and end of each replication of a model; of the last one maybe no end yet."""
        self._lane = NONE
        self._running: dict[int, tuple[int, bool]] = {}
        """By the stamps of works that are not complete: the span, and whether it was added here."""
        self._rows: list[tuple[Any, ...]] = []
        self._held: list[SeenWork] = []
        self._holds = True

    def called(self, call: CalledCollective) -> None:
        """A collective is called in Python."""
        if _kind(call.name):
            self._called.append(call)
            del self._called[:-MOST_CALLS]

    def replicated(self, model: ReplicatedModel) -> None:
        """A model was replicated."""
        self._models.append(model)

    def wraps(self, stack: int, now: int) -> None:
        """A model is being replicated from now on, by this line."""
        self._wrapping.append((stack, now, NONE))

    def wrapped(self, now: int) -> None:
        """This has ended."""
        if self._wrapping:
            stack, since, _ = self._wrapping.pop()
            self._wrapping.append((stack, since, now))

    def flush(self, *, last: bool) -> list[tuple[Any, ...]]:
        """Write new works. Returns rows of the collectives that were not called in Python."""
        for work in self._observer.ended([*self._running]):
            if work.end or last:
                span, added = self._running.pop(work.stamp)
                self._put(span, work)
                if added and work.end:
                    self._contexts.spans.ends(span, work.end - self._start)
        self._holds = not last
        held, self._held = {each.stamp: each for each in self._held}, []
        held.update({each.stamp: each for each in self._observer.ended([*held])})
        works = sorted([*held.values(), *self._observer.read()], key=lambda each: each.begin)
        found = [row for row in map(self._take, works) if row is not None]
        if last:
            for work in self._observer.ended([*self._running]):
                self._put(self._running.pop(work.stamp)[0], work)
        put(self._writer.block, BackendWork, WORK_COLUMNS, _with_numbers(take_all(self._rows)))
        return found

    def _take(self, work: SeenWork) -> tuple[Any, ...] | None:
        """Note a work. Returns the row of its collective, if it was not called in Python."""
        kind = _kind(work.name)
        if not kind:
            return None
        self._over(work.begin)
        at = next((at for at, each in enumerate(self._called) if _fits(each, work, kind)), None)
        if at is not None:
            call = self._called[at]
            if not call.has_work:
                self._seen(call.span, work, added=False)
            if _sends_objects(call.name):
                self._called[at] = call._replace(has_work=True)
            else:
                del self._called[at]
            return None
        made = self._bucket(work, kind)
        if self._is_early(kind, made):
            self._held.append(work)
            return None
        made = made or self._wrapped(work)
        if self._lane == NONE:
            self._lane = self._contexts.threads.lane(LANE)
        begin, end = work.begin - self._start, work.end - self._start if work.end else NONE
        span = self._contexts.spans.add(kind + GOES_ON, Phase.COLLECTIVE, self._lane, begin, end)
        self._seen(span, work, added=True)
        intern = self._writer.intern
        return (
            span, made.group, made.stack, work.shape, intern(work.dtype), intern(made.caller),
            made.bucket, intern("gradients" if made.parameters else ""), made.parameters,
            0, 0, (),
        )  # fmt: skip

    def _over(self, now: int) -> None:
        """Forget calls that sent objects and have all their works: the next call has begun."""
        over = [
            at
            for at, (call, after) in enumerate(pairwise(self._called))
            if call.has_work and after.begin <= now
        ]
        for at in reversed(over):
            del self._called[at]

    def _bucket(self, work: SeenWork, kind: str) -> Made | None:
        """The bucket of a model that is reduced by this work."""
        if kind != "all_reduce" or not work.dtype.startswith(("float", "bfloat", "complex")):
            return None
        for model in self._models:
            for which, buckets in enumerate((model.buckets.first, model.buckets.now())):
                at = model.next.get(which, 0) % len(buckets) if buckets else 0
                for number in (*range(at, len(buckets)), *range(at)):
                    if model.buckets.elements(buckets[number]) == prod(work.shape):
                        model.next[which] = number + 1
                        own = [model.parameters[each] for each in buckets[number]]
                        return Made(model.group, NONE, REPLICATES, number, own)
        if len(self._models) == 1:
            return Made(self._models[0].group, NONE, REPLICATES, NONE, [])
        return None

    def _is_early(self, kind: str, made: Made | None) -> bool:
        """Whether a model may say later that this work reduces a bucket of it."""
        fits = kind != "all_reduce" or (made is not None and made.bucket != NONE)
        if fits or not self._holds or len(self._held) >= MOST_HELD:
            return False
        return any(not model.buckets.are_made_again for model in self._models)

    def _wrapped(self, work: SeenWork) -> Made:
        """Whether a model is being replicated."""
        for stack, since, until in self._wrapping:
            if since <= work.begin and (until == NONE or work.begin <= until):
                return Made(NONE, stack, REPLICATES, NONE, [])
        return Made(NONE, NONE, UNKNOWN, NONE, [])

    def _seen(self, span: int, work: SeenWork, *, added: bool) -> None:
        if work.end:
            self._put(span, work)
        else:
            self._running[work.stamp] = span, added

    def _put(self, span: int, work: SeenWork) -> None:
        """Add the row of a work."""
        begin, end = work.begin - self._start, work.end - self._start if work.end else NONE
        measured = [each for each in (work.before, work.after) if each is not None]
        self._rows.append((span, begin, end, measured))


def _with_numbers(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows, with norms, sums, numbers of bad elements, and hashes of what was measured."""
    measured = [each for row in rows for each in row[-1]]
    if not measured:
        return [(*row[:-1], (), (), (), ()) for row in rows]
    from gradscope.watch.values.statistics import columns

    both = np.zeros((len(measured), HEAD + len(measured[0])), np.int64)
    both[:, HEAD:] = measured
    found = columns(both)
    bad = found.nan + found.posinf + found.neginf
    sums = np.where(found.size > bad, found.mean * (found.size - bad), 0.0)
    numbers = [each.tolist() for each in (found.norm(), sums, bad, both[:, -1])]
    complete, at = [], 0
    for row in rows:
        end = at + len(row[-1])
        complete.append((*row[:-1], *(tuple(each[at:end]) for each in numbers)))
        at = end
    return complete


@cache
def _kind(name: str) -> str:
    """The kind of a call or work; "": it is none of these."""
    return next((kind for kind in KINDS if name.lstrip("_").startswith(kind)), "")


def _sends_objects(name: str) -> bool:
    """Whether a call needs several works."""
    return "_object" in name


def _fits(call: CalledCollective, work: SeenWork, kind: str) -> bool:
    """Whether this call may have made the work."""
    called, equal = _kind(call.name), prod(call.shape) == prod(work.shape)
    if call.begin > work.begin:
        return False
    if called != kind:
        return (called, kind) == DONE_AS and equal and bool(call.shape)
    known = kind in SAME_TENSOR and call.shape and work.dtype
    return not known or equal
