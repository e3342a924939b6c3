"""Rows of what ranks exchange: groups, collectives, and models that are kept equal."""

from __future__ import annotations

from itertools import takewhile
from math import prod
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from weakref import ref

from gradscope.record.from_pytorch.memory.held_as import held_as
from gradscope.record.from_pytorch.memory.storage_rows import DtypesAndDevices, put
from gradscope.record.from_pytorch.memory.work_rows import (
    COLUMNS,
    CalledCollective,
    ReplicatedModel,
    WorkRows,
)
from gradscope.record.notes.local_names import gradient_of
from gradscope.record.notes.log import take_all
from gradscope.record.process.group_rows import GroupRows
from gradscope.trace.schema import NONE, Collective, Handle, Passed, Replicated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, FrameType

    from gradscope.record.from_pytorch.memory.carried_rows import CarriedRows
    from gradscope.record.notes.positions.contexts import Contexts
    from gradscope.trace.writer import Writer
    from gradscope.watch.called.ranks.buckets import ModelBuckets
    from gradscope.watch.called.ranks.carried import CarriedWrites
    from gradscope.watch.called.ranks.works import WorkObserver
    from gradscope.watch.listener import Exchange, RankGroup

OF_MODELS = "group", "parameters", "stack", "searches", "broadcasts"
GRADIENTS, PARAMETERS = "gradients", "parameters"


def _unknown(_: object) -> int:
    return NONE


def _nowhere(_: object) -> int:
    return 0


def _nothing(is_new: bool) -> None:
    pass


def _all(_: object) -> bool:
    return True


class ExchangeRows:
    """Collects these rows for one recording."""

    def __init__(
        self, writer: Writer, number_of: Callable[[Any], int], kinds: DtypesAndDevices
    ) -> None:
        self._writer = writer
        self._number_of = number_of
        self._kinds = kinds
        self.site_of: Callable[[FrameType | None], int] = _unknown
        self.contexts: Contexts | None = None
        self.before_waiting: Callable[[bool], None] = _nothing
        """Called when a collective has been noted, and other ranks may end this process in it.

        With whether no such call came from this line before.
        """
        self.leaves: Callable[[], list[Any]] = list
        """All leaves that are known and alive."""
        self.address: Callable[[Any], int] = _nowhere
        """The address of a tensor's elements; 0: not known."""
        self.is_machinery: Callable[[CodeType], bool] = _all
        """Whether a code is not the program's own."""
        self.carried: CarriedRows | None = None
        self.last = False
        """Whether the next flush may be the last one."""
        self._groups = GroupRows(writer)
        self._replicated: list[tuple[int, list[int], int, ModelBuckets]] = []
        self._collectives: list[tuple[Any, ...]] = []
        self._gradients: dict[int, tuple[int, ref[Any]]] = {}
        """The leaf, by the address of its gradient: its number, and itself."""
        self._values: dict[int, tuple[int, ref[Any]]] = {}  # the same by the address of its values
        self._works: WorkRows | None = None
        self._passed: list[tuple[int, int, int]] = []
        self._handles: list[tuple[int, int, int, int]] = []
        self._seen: set[tuple[Any, ...]] = set()

    def exchanges(self, token: Any, passed: Exchange) -> None:
        """A collective, whose span has this token, began."""
        group = NONE if passed.group is None else self._groups.number(passed.group)
        (dtype, _), stack = self._kinds.dtype(passed.dtype), self.site_of(passed.frame)
        shape, intern = tuple(passed.shape), self._writer.intern
        holds, parameters = self._held(passed)
        texts = intern(passed.caller), NONE, intern(holds)
        called = ""
        if passed.tensor is not None and not passed.caller:
            called = held_as(passed.tensor, passed.frame, self.is_machinery)
        more = intern(passed.reduces), intern(called), passed.makes
        self._collectives.append((token, group, stack, shape, dtype, *texts, parameters, *more))
        for node, through in passed.nodes:
            self._passed.append((token, node, intern(through)))
        if self._works is not None:
            self._works.called(CalledCollective(token, perf_counter_ns(), passed.name, shape))
        call = group, stack, passed.name, dtype
        is_new = call not in self._seen
        self._seen.add(call)
        self.before_waiting(is_new)

    def _held(self, passed: Exchange) -> tuple[str, list[int]]:
        """What the tensor holds that is passed, and of which parameters."""
        if passed.unit:
            numbers = [self._number_of(each) for each in passed.unit]
            gathers = "gather" in passed.name or passed.name == "broadcast"
            return PARAMETERS if gathers else GRADIENTS, [each for each in numbers if each != NONE]
        at = 0 if passed.tensor is None else self.address(passed.tensor)
        if not at:
            return "", []
        elements = prod(passed.shape)
        found = self._leaf_at(at, elements)
        if not found[0]:
            self._look_at_leaves(elements)
            found = self._leaf_at(at, elements)
        return found

    def _leaf_at(self, at: int, elements: int) -> tuple[str, list[int]]:
        """What is known to be at an address, if it is still there."""
        for known, holds in ((self._gradients, GRADIENTS), (self._values, PARAMETERS)):
            if at in known:
                number, kept = known[at]
                leaf = kept()
                there = gradient_of(leaf) if leaf is not None and holds == GRADIENTS else leaf
                if there is not None and self.address(there) == at and there.numel() == elements:
                    return holds, [number]
        return "", []

    def _look_at_leaves(self, elements: int) -> None:
        """Find out where leaves of this size, and their gradients, are now."""
        self._gradients.clear()
        self._values.clear()
        for leaf in self.leaves():
            if leaf.numel() == elements:
                number, grad = self._number_of(leaf), gradient_of(leaf)
                self._values[self.address(leaf)] = number, ref(leaf)
                if grad is not None:
                    self._gradients[self.address(grad)] = number, ref(leaf)
        self._gradients.pop(0, None)
        self._values.pop(0, None)

    def observes(self, works: WorkObserver) -> None:
        """Works are observed from now on."""
        if self._works is None and self.contexts is not None:
            self._works = WorkRows(self._writer, self.contexts, works)

    def carries(self, carried: CarriedWrites) -> None:
        """What collectives have written is followed from now on."""
        if self.carried is not None:
            self.carried.carried = carried

    def marked(self, token: Any, mark: int) -> None:
        """What this collective has written has this mark."""
        if self.carried is not None:
            self.carried.marked(token, mark)

    def handled(self, token: Any, did: str, frame: FrameType | None) -> None:
        """This collective returned a handle, or a method of that was called by this frame."""
        if self.contexts is not None:
            t = perf_counter_ns() - self.contexts.spans.start
            stack = NONE if frame is None else self.site_of(frame)
            self._handles.append((token, self._writer.intern(did), t, stack))

    def wraps(self, frame: FrameType | None) -> None:
        """A model is being replicated, by this frame."""
        if self._works is not None:
            self._works.wraps(self.site_of(frame), perf_counter_ns())

    def wrapped(self) -> None:
        """This has ended."""
        if self._works is not None:
            self._works.wrapped(perf_counter_ns())

    def replicated(
        self,
        group: RankGroup,
        parameters: Sequence[Any],
        buckets: ModelBuckets,
        frame: FrameType | None = None,
    ) -> None:
        """Parameters that are kept equal on all ranks of a group."""
        numbers, number = [self._number_of(each) for each in parameters], self._groups.number(group)
        self._replicated.append((number, numbers, self.site_of(frame), buckets))
        if self._works is not None:
            self._works.replicated(ReplicatedModel(number, numbers, buckets))

    def flush(self) -> None:
        """Pass new rows to the writer."""
        block = self._writer.block
        self._groups.flush()
        models = take_all(self._replicated)
        if not self.last:  # hooks and options may still be set; all ranks have the same order
            ready = [*takewhile(lambda each: each[-1].has_run, models)]
            self._replicated[:0] = models[len(ready) :]
            models = ready
        replicated = [
            (group, numbers, stack, buckets.searches, buckets.broadcasts)
            for group, numbers, stack, buckets in models
            if not buckets.differ_on_purpose
        ]
        put(block, Replicated, OF_MODELS, replicated)
        if self._works is not None:
            self._collectives += self._works.flush(last=self.last)
        put(block, Collective, COLUMNS, self._collectives)
        put(block, Passed, ("span", "sequence_nr", "through"), self._passed)
        put(block, Handle, ("span", "did", "t", "stack"), self._handles)
        if self.carried is not None:
            self.carried.flush()
