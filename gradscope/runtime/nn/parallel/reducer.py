"""The reducer of DistributedDataParallel: averages gradients while the backward goes on.

# Note [How gradients are averaged]
A hook on the AccumulateGrad node of each parameter marks it ready: its gradient, divided by the
number of ranks, is copied into its bucket. When the last parameter of a bucket is ready, and all
buckets before it are, the bucket's all-reduce begins, on another thread. When all have begun, a
callback is queued that runs at the end of the backward: it waits for each all-reduce, and copies
sums back into gradients. Ranks must begin the same all-reduces in the same order: so buckets are
reduced by their numbers, and a parameter that is never ready stops all buckets from its own on.

After the first backward, buckets are filled again in the order in which gradients arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from gradscope.runtime.core.autograd.engine.engine import engine
from gradscope.runtime.core.state.warned import warn_once
from gradscope.runtime.core.tensors.views.in_place import count_told_write
from gradscope.runtime.core.tensors.views.views import accumulator
from gradscope.runtime.core.tensors.wrapping import wrap
from gradscope.runtime.distributed.buckets import (
    DEFAULT_BYTES,
    FIRST_BYTES,
    NO_LIMIT,
    Bucket,
    GradBucket,
    assigned,
    in_reverse,
)
from gradscope.runtime.distributed.calls.collectives import reduced, reduction
from gradscope.runtime.distributed.calls.telling import ToldBucket, told
from gradscope.runtime.distributed.exchange.progress import progress
from gradscope.runtime.distributed.exchange.work import Work
from gradscope.runtime.distributed.groups import ProcessGroup
from gradscope.runtime.distributed.reduce_op import ReduceOp
from gradscope.runtime.nn.parallel import reducer_errors as errors
from gradscope.runtime.nn.parallel.unused import reached

WRITER = "DistributedDataParallel"


class Reducer:
    """The buckets of one model, and how far its present backward is."""

    def __init__(
        self,
        parameters: Sequence[Any],
        names: Sequence[str],
        group: ProcessGroup,
        limits: Sequence[int] | None,
        *,
        find_unused: bool,
        static_graph: bool,
        as_views: bool,
    ) -> None:
        """`limits`: sizes of buckets in bytes; None: the usual ones."""
        self.parameters, self.names, self.group = [*parameters], [*names], group
        self.find_unused, self.static_graph, self.as_views = find_unused, static_graph, as_views
        self._limits = limits
        self.hook: tuple[Callable[..., Any], Any] | None = None  # and its state
        self._first = True  # no backward was reduced yet
        self.rebuilt = False
        self._arrived: list[int] = []  # parameters, until buckets are rebuilt
        self._hooks_run = [0] * len(parameters)  # by parameter, in the first backward
        self._hooks_left = [0] * len(parameters)
        self._used = np.zeros(len(parameters), np.int32)  # by parameter, in this backward
        self._used_anywhere: Work | None = None
        self._unused: list[int] = []
        self._expects = self._must_end = self._marked_unused = False
        self._ready: set[int] = set()
        self._next = 0  # the bucket that is reduced next
        self.buckets: list[Bucket] = []
        self._place: dict[int, tuple[Bucket, int]] = {}
        self._make(in_reverse(self.parameters, self._first_limits()))
        self._nodes = [self._hooked(at) for at in range(len(parameters))]

    # -- buckets ---------------------------------------------------------------------------------

    def _first_limits(self) -> Sequence[int]:
        """Before the order of arrival is known, there is one bucket, unless it stays unknown."""
        if self.static_graph or not self.find_unused:
            return [NO_LIMIT]
        return self._limits or [FIRST_BYTES, DEFAULT_BYTES]

    def _make(self, places: Sequence[Sequence[int]]) -> None:
        self.buckets = [
            Bucket(each, [self.parameters[at] for at in each], as_views=self.as_views)
            for each in places
        ]
        self._place = {
            at: (bucket, index) for bucket in self.buckets for index, at in enumerate(bucket.places)
        }

    def _hooked(self, at: int) -> Any:
        """The node that accumulates a parameter's gradient, which marks the parameter ready."""
        node, weak = accumulator(self.parameters[at]), ref(self)

        def mark_ready(_: Any, __: Any) -> None:
            reducer = weak()
            if reducer is not None:
                reducer._arrives(at)

        mark_ready.__qualname__ = f"{WRITER}.mark_ready"
        node.register_hook(mark_ready)
        return node

    @property
    def has_begun(self) -> bool:
        """Whether a backward was prepared."""
        return self._expects or not self._first

    @property
    def _rebuilds(self) -> bool:
        return (self.static_graph or not self.find_unused) and not self.rebuilt

    def rebuild(self) -> bool:
        """Fill buckets in the order of arrival, once. Called before each forward."""
        if self._must_end:
            raise errors.not_finished(self)
        if not self._rebuilds or not self._arrived:
            return False
        arrived = [self.parameters[at] for at in self._arrived]
        found = assigned(arrived, self._limits or [FIRST_BYTES, DEFAULT_BYTES])
        places = [[self._arrived[at] for at in each] for each in found]
        self._make(self._as_first_rank(places))
        self.rebuilt, self._arrived = True, []
        return True

    def _as_first_rank(self, places: list[list[int]]) -> list[list[int]]:
        """The buckets of rank 0, which all ranks use."""
        group = self.group
        flat = np.array([at for each in places for at in each], np.int64)
        ends = np.zeros(len(self.parameters) + 1, np.int64)
        ends[: len(places)] = np.cumsum([len(each) for each in places])
        together = np.concatenate([flat, ends])
        with told("broadcast", group, wrap(together), caller=WRITER):
            progress.run(Work("broadcast", group, lambda: group.transport.broadcast(together, 0)))
        flat, ends = together[: flat.size], together[flat.size :]
        parts = np.split(flat, ends[ends > 0][:-1])
        return [part.tolist() for part in parts]

    # -- one backward ----------------------------------------------------------------------------

    def prepare(self, outputs: Sequence[Any]) -> None:
        """A forward has ended, whose backward will be reduced."""
        self._expects = True
        self._marked_unused = False
        self._ready.clear()
        self._next = 0
        self._hooks_left = [*self._hooks_run]
        for bucket in self.buckets:
            bucket.pending, bucket.work, bucket.told = len(bucket.places), None, None
        if self.find_unused and not self.static_graph:
            found = reached(outputs)
            self._unused = [at for at, node in enumerate(self._nodes) if node not in found]
            if outputs and not self._unused:
                warn_once(errors.NONE_UNUSED)

    @property
    def unmarked(self) -> list[int]:
        """The parameters that are not ready."""
        return [at for at in range(len(self.parameters)) if at not in self._ready]

    def _arrives(self, at: int) -> None:
        """The gradient of a parameter has been accumulated."""
        if not self._expects:
            return
        counts = self.static_graph and self._first
        if (self.find_unused or counts) and self.parameters[at].grad is not None:
            self._used[at] = 1
        if counts:
            self._hooks_run[at] += 1
            return
        if not self._marked_unused:
            self._marked_unused = True
            for unused in self._unused:
                self._mark(unused)
        if self.static_graph:
            if self._hooks_left[at] <= 0:
                raise errors.graph_changed()
            self._hooks_left[at] -= 1
            if self._hooks_left[at]:
                return
        self._mark(at)

    def _mark(self, at: int) -> None:
        """A parameter is ready."""
        if at in self._ready:
            raise errors.marked_twice(self, at)
        self._ready.add(at)
        if self._rebuilds:
            self._arrived.append(at)
        self._must_end = True
        bucket = self._fill(at)
        bucket.pending -= 1
        if not bucket.pending:
            self._tell_ready(bucket)
        if bucket.pending or bucket is not self.buckets[self._next]:
            return
        while self._next < len(self.buckets) and not self.buckets[self._next].pending:
            self._reduce(self._next)
            self._next += 1
        if self._next == len(self.buckets):
            if self.find_unused and not self.static_graph:
                self._ask_who_used()
            engine.queue_callback(self.finish)

    def _fill(self, at: int) -> Bucket:
        """Copy a parameter's gradient, divided by the number of ranks, into its bucket."""
        bucket, index = self._place[at]
        parameter, into = self.parameters[at], bucket.arrays[index]
        grad = parameter.grad
        if grad is None:
            into[...] = 0
            return bucket
        array = grad._array
        if self.hook is None:
            np.multiply(array, into.dtype.type(1.0 / self.group.size()), out=into)
        elif array is not into:
            into[...] = array
        if self.as_views and grad is not bucket.views[index]:
            parameter.grad = bucket.views[index]
        return bucket

    def _tell_ready(self, bucket: Bucket) -> None:
        number = self.buckets.index(bucket)
        bucket.told = ToldBucket(
            number, self.group, bucket.flat, bucket.parameters, reduces=self.hook is None
        )

    def _reduce(self, number: int) -> None:
        """Begin the all-reduce of a bucket, or call the hook for it."""
        bucket, group = self.buckets[number], self.group
        if self.hook is not None:
            hook, state = self.hook
            last = number == len(self.buckets) - 1
            bucket.work = hook(state, GradBucket(number, bucket, is_last=last))
            return
        start, finish = reduction(group, bucket.elements, ReduceOp.SUM)
        name = f"all_reduce of bucket {number}"
        bucket.work = Work(name, group, start, finish, told=bucket.told)
        progress.queue(bucket.work)

    def _ask_who_used(self) -> None:
        """Begin to find out which parameters no rank has used."""
        name = "all_reduce of used parameters"
        self._used_anywhere = reduced(self.group, self._used, ReduceOp.SUM, name)
        progress.queue(self._used_anywhere)

    def reduce_after_backward(self) -> None:
        """Reduce the first backward of a static graph, whose hooks were only counted."""
        self._ask_who_used()
        self._unused = [at for at, runs in enumerate(self._hooks_run) if not runs]
        for at in range(len(self.parameters)):
            self._fill(at)
        for number, bucket in enumerate(self.buckets):
            self._tell_ready(bucket)
            self._reduce(number)
        self.finish()

    def finish(self) -> None:
        """Wait for all buckets, and write the sums into gradients."""
        self._expects = self._must_end = False
        counts = self.find_unused or self.static_graph
        for bucket in self.buckets:
            bucket.work.wait()
            if self.hook is not None:
                _copy_of_hook(bucket)
        if counts and self._used_anywhere is not None:
            self._used_anywhere.wait()
        for bucket in self.buckets:
            for at, array in zip(bucket.places, bucket.arrays, strict=True):
                if not counts or self._used[at]:  # otherwise no rank has used it
                    self._write(at, array)
            bucket.work = bucket.told = None
        self._used_anywhere, self._first = None, False
        if not self.static_graph:
            self._used[...] = 0

    def _write(self, at: int, array: Any) -> None:
        """Write a sum into the gradient of a parameter."""
        parameter = self.parameters[at]
        grad = parameter.grad
        if self.as_views:
            bucket, index = self._place[at]
            if grad is None:
                parameter.grad = bucket.views[index]
            elif not np.may_share_memory(grad._array, array):
                raise errors.not_a_view()
            count_told_write(bucket.views[index], WRITER)
        elif grad is None:
            made = np.empty_like(parameter._array, array.dtype, subok=False)
            made[...] = array
            parameter.grad = wrap(made)
        else:
            grad._array[...] = array
            count_told_write(grad, WRITER)


def _copy_of_hook(bucket: Bucket) -> None:
    """Copy what a communication hook made of a bucket back into it."""
    made = bucket.work.value()
    made = made[0] if isinstance(made, list | tuple) else made
    if made._array is not bucket.elements:
        bucket.elements[...] = made._array.reshape(-1)
