"""Rows of tensors that are divided among ranks, and of leaves into which FSDP gathers them.

A forward under FSDP uses a leaf that no module shows: a flat parameter, or the gathered values of
one parameter. FSDP passes the gradient of the leaf back to the parameters, without the engine.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any
from weakref import ref

from gradscope.record.notes.log import Ints, take_all
from gradscope.trace.schema import (
    NONE,
    Gathered,
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
    from collections.abc import Callable, Mapping

    from gradscope.trace.writer import Writer


class ShardRows:
    """Collects these rows for one recording."""

    def __init__(self, writer: Writer, number_of: Callable[[Any], int]) -> None:
        self._writer = writer
        self._number_of = number_of
        self._modules: list[ref[Any]] = []  # those that FSDP shards, without flat parameters
        self._parts: dict[int, tuple[ref[Any], ref[Any], str]] = {}
        """By the id() of a leaf that FSDP fills: the leaf, its parameter, and the name of that."""
        self._shards: list[tuple[int, tuple[int, ...], str, int]] = []
        self._gathered: list[tuple[int, list[int], list[str]]] = []

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

    def measured_by(self, ring: Any) -> Callable[[Ints, Ints], None]:
        """The function that adds the results whose parts machine code has measured."""

        def measured(tensors: Ints, parts: Ints) -> None:
            known = ring.parts.known
            for number, part in zip(tensors.tolist(), parts.tolist(), strict=True):
                if part and number != NONE:
                    self._shards.append((number, *known[part - 1]))

        return measured

    def leaf(self, leaf: Any, number: int) -> None:
        """Called when a leaf gets a number: a flat parameter gets a row here."""
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
        if gathered:
            leaf, parameters, names = zip(*gathered, strict=True)
            self._writer.block(Gathered, {
                "leaf": [*leaf], "parameters": [*parameters],
                "names": [[intern(name) for name in each] for each in names],
            })  # fmt: skip
