"""Rows of what ranks share: divided tensors, leaves into which FSDP gathers them, collectives.

A forward under FSDP uses a leaf that no module shows: a flat parameter, or the gathered values of
one parameter. FSDP passes the gradient of the leaf back to the parameters, without the engine.
"""

from __future__ import annotations

from math import prod
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from weakref import ref

from gradscope.record.from_pytorch.memory.storage_rows import DtypesAndDevices, put
from gradscope.record.from_pytorch.memory.work_rows import (
    COLUMNS,
    CalledCollective,
    ReplicatedModel,
    WorkRows,
)
from gradscope.record.notes.local_names import gradient_of
from gradscope.record.notes.log import take_all
from gradscope.trace.schema import (
    NONE,
    Collective,
    Gathered,
    ProcessGroup,
    Replicated,
    Shard,
    Tensor,
)
from gradscope.watch.in_place.sharded import (
    flattened_in,
    gathered_in,
    gathers,
    is_sharded,
    local_part,
    placements_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from gradscope.record.notes.positions.contexts import Contexts
    from gradscope.trace.writer import Writer
    from gradscope.watch.listener import Exchange, RankGroup
    from gradscope.watch.ranks.buckets import Buckets
    from gradscope.watch.ranks.works import WorkObserver


GRADIENTS, PARAMETERS = "gradients", "parameters"


def _unknown(_: object) -> int:
    return NONE


def _nowhere(_: object) -> int:
    return 0


def _nothing() -> None:
    pass


class ShardRows:
    """Collects these rows for one recording."""

    def __init__(
        self, writer: Writer, number_of: Callable[[Any], int], kinds: DtypesAndDevices
    ) -> None:
        self._writer = writer
        self._number_of = number_of
        self._kinds = kinds
        self.site_of: Callable[[FrameType | None], int] = _unknown
        self.contexts: Contexts | None = None
        self.before_waiting: Callable[[], None] = _nothing
        """Called when a collective has been noted, and other ranks may end this process in it."""
        self.measure: Callable[..., None] | None = None
        """Measures the part of a leaf, which no native traversal can read; if values are on."""
        self._modules: list[ref[Any]] = []  # those that FSDP shards, without flat parameters
        self._parts: dict[int, tuple[ref[Any], ref[Any], str]] = {}
        """By the id() of a leaf that FSDP fills: the leaf, its parameter, and the name of that."""
        self._shards: list[tuple[int, tuple[int, ...], str, int]] = []
        self._gathered: list[tuple[int, list[int], list[str]]] = []
        self._groups: dict[RankGroup, int] = {}
        self._replicated: list[tuple[int, list[int], Buckets]] = []
        self._new_groups: list[tuple[int, int, int, tuple[int, ...]]] = []
        self._collectives: list[tuple[Any, ...]] = []
        self.leaves: Callable[[], list[Any]] = list
        """All leaves that are known and alive."""
        self.address: Callable[[Any], int] = _nowhere
        """The address of a tensor's elements; 0: not known."""
        self._gradients: dict[int, int] = {}  # the leaf, by the address of its gradient
        self._values: dict[int, int] = {}  # the same by the address of its values
        self._works: WorkRows | None = None
        self.last = False
        """Whether the next flush may be the last one."""

    def met(self, module: Any) -> None:
        """Called once for each module of a model."""
        if gathers(module):
            self._modules.append(ref(module))

    def described(self, number: int, tensor: Any) -> None:
        """Called when a tensor gets its row."""
        if is_sharded(tensor):
            own = local_part(tensor)  # its sizes may be symbolic, while torch.compile traces
            local = tuple(size if type(size) is int else NONE for size in own.shape)
            size = prod(local) * own.element_size() if NONE not in local else 0
            self._shards.append((number, local, placements_of(tensor), size))

    def leaf(self, leaf: Any, number: int) -> None:
        """Called when a leaf gets a number: a flat parameter gets a row here."""
        if self.measure is not None and is_sharded(leaf):
            self.measure(leaf, tensor=number)
        names, parameters = flattened_in(leaf)
        if names:
            self._hold(number, parameters, names)

    def name(self, leaf: Any, number: int) -> str:
        """The name of a leaf that FSDP fills, which no module shows; "" for any other."""
        names, _ = flattened_in(leaf)
        if names:
            return f"flat parameter of {names[0]} … {names[-1]}"
        if not self._is_gathered(leaf):
            self._look_at_modules()
        if not self._is_gathered(leaf):
            return ""
        _, parameter, name = self._parts[id(leaf)]
        self._hold(number, [each for each in [parameter()] if each is not None], [name])
        return f"gathered {name or 'parameter'}"

    def _is_gathered(self, leaf: Any) -> bool:
        return id(leaf) in self._parts and self._parts[id(leaf)][0]() is leaf

    def _look_at_modules(self) -> None:
        modules = [module for weak in self._modules if (module := weak()) is not None]
        self._parts = {
            id(whole): (ref(whole), ref(own), name)
            for module in modules
            for whole, own, name in gathered_in(module)
        }

    def _hold(self, number: int, parameters: list[Any], names: list[str]) -> None:
        numbers = [self._number_of(each) for each in parameters]
        self._gathered.append((number, [each for each in numbers if each != NONE], names))

    def exchanges(self, token: Any, passed: Exchange) -> None:
        """A collective, whose span has this token, began."""
        group = NONE if passed.group is None else self._group(passed.group)
        (dtype, _), stack = self._kinds.dtype(passed.dtype), self.site_of(passed.frame)
        shape, intern = tuple(passed.shape), self._writer.intern
        holds, parameters = self._held(passed)
        self._collectives.append(
            (
                token,
                group,
                stack,
                shape,
                dtype,
                intern(passed.caller),
                NONE,
                intern(holds),
                parameters,
            )
        )
        if self._works is not None:
            self._works.called(CalledCollective(token, perf_counter_ns(), passed.name, shape))
        self.before_waiting()

    def _held(self, passed: Exchange) -> tuple[str, list[int]]:
        """What the tensor holds that is passed, and of which parameters."""
        if passed.unit:
            numbers = [self._number_of(each) for each in passed.unit]
            gathers = "gather" in passed.name or passed.name == "broadcast"
            return PARAMETERS if gathers else GRADIENTS, [each for each in numbers if each != NONE]
        at = 0 if passed.tensor is None else self.address(passed.tensor)
        if not at:
            return "", []
        if at not in self._gradients and at not in self._values:
            self._look_at_leaves(prod(passed.shape))
        if at in self._gradients:
            return GRADIENTS, [self._gradients[at]]
        return (PARAMETERS, [self._values[at]]) if at in self._values else ("", [])

    def _look_at_leaves(self, elements: int) -> None:
        """Find out where leaves of this size, and their gradients, are now."""
        self._gradients.clear()
        self._values.clear()
        for leaf in self.leaves():
            if leaf.numel() == elements:
                number, grad = self._number_of(leaf), gradient_of(leaf)
                self._values[self.address(leaf)] = number
                if grad is not None:
                    self._gradients[self.address(grad)] = number
        self._gradients.pop(0, None)
        self._values.pop(0, None)

    def observes(self, works: WorkObserver) -> None:
        """Works are observed from now on."""
        if self._works is None and self.contexts is not None:
            self._works = WorkRows(self._writer, self.contexts, works)

    def wraps(self, frame: FrameType | None) -> None:
        """A model is being replicated, by this frame."""
        if self._works is not None:
            self._works.wraps(self.site_of(frame), perf_counter_ns())

    def wrapped(self) -> None:
        """This has ended."""
        if self._works is not None:
            self._works.wrapped(perf_counter_ns())

    def replicated(self, group: RankGroup, parameters: Sequence[Any], buckets: Buckets) -> None:
        """Parameters that are kept equal on all ranks of a group."""
        numbers, number = [self._number_of(each) for each in parameters], self._group(group)
        self._replicated.append((number, numbers, buckets))
        if self._works is not None:
            self._works.replicated(ReplicatedModel(number, numbers, buckets))

    def _group(self, group: RankGroup) -> int:
        number = self._groups.get(group)
        if number is None:
            number = self._groups[group] = len(self._groups)
            intern = self._writer.intern
            self._new_groups.append(
                (number, intern(group.name), intern(group.described), group.members)
            )
        return number

    def flush(self, merged: Mapping[int, int]) -> None:
        """Pass new rows to the writer; `merged`: tensors that are the same as others."""
        intern = self._writer.intern
        shards, gathered = take_all(self._shards), take_all(self._gathered)
        if shards:
            number, local, placements, sizes = zip(*shards, strict=True)
            tensor = [merged.get(each, each) for each in number]
            texts = [intern(each) for each in placements]
            rows = {"tensor": tensor, "local": [*local], "placements": texts}
            self._writer.block(Shard, rows)
            self._writer.block(Tensor, {"id": tensor, "bytes": [*sizes]}, amend=True)
        self._flush_groups()
        if gathered:
            leaf, parameters, names = zip(*gathered, strict=True)
            self._writer.block(Gathered, {
                "leaf": [*leaf], "parameters": [*parameters],
                "names": [[intern(name) for name in each] for each in names],
            })  # fmt: skip

    def _flush_groups(self) -> None:
        block = self._writer.block
        put(block, ProcessGroup, ("id", "name", "described", "members"), self._new_groups)
        replicated = [
            (group, numbers)
            for group, numbers, buckets in take_all(self._replicated)
            if not buckets.differ_on_purpose
        ]
        put(block, Replicated, ("group", "parameters"), replicated)
        if self._works is not None:
            self._collectives += self._works.flush(last=self.last)
        put(block, Collective, COLUMNS, self._collectives)
