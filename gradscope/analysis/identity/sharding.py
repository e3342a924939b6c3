"""Tensors that are divided among ranks, and leaves into which FSDP gathers parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from gradscope.trace.schema import Gathered, Shard, Tensor
from gradscope.trace.trace import Trace

FEW = 3
"""Number of parameters that are named."""


class Sharding:
    """What a trace says about them."""

    def __init__(self, trace: Trace) -> None:
        tensors = trace.table(Tensor)
        self.shards: Mapping[int, Shard] = {row.tensor: row for row in trace.rows(Shard)}
        self.gathered: Mapping[int, Gathered] = {
            row.leaf: row for row in trace.rows(Gathered) if tensors.has(row.leaf)
        }
        leaves: dict[int, list[int]] = defaultdict(list)
        for leaf, row in self.gathered.items():
            for parameter in row.parameters:
                leaves[parameter].append(leaf)
        self.leaves: Mapping[int, list[int]] = leaves
        """By parameter: the leaves that hold its gathered values."""

    def held_in(self, tensor: int) -> tuple[int, ...]:
        """A tensor, and the leaves that hold its gathered values: its gradient arrives there."""
        return tensor, *self.leaves.get(tensor, ())

    def with_parameters(self, leaves: Iterable[int]) -> set[int]:
        """These leaves, and the parameters whose gathered values they hold."""
        found = set(leaves)
        for leaf in found & self.gathered.keys():
            found.update(self.gathered[leaf].parameters)
        return found

    def is_elsewhere(self, row: Tensor) -> bool:
        """Whether all elements of a parameter that FSDP gathers are on other ranks."""
        shard = self.shards.get(row.id)
        return row.id in self.leaves and 0 in (row.shape if shard is None else shard.local)

    def in_words(self, tensor: int, whole: str) -> str:
        """The shape and dtype of a tensor, with the part on this rank."""
        return part_in_words(self.shards.get(tensor), whole)

    def story(self, tensor: int) -> Iterator[tuple[str, str]]:
        """What FSDP does with a tensor, in words."""
        leaves = ", ".join(f"tensor {each}" for each in self.leaves.get(tensor, ()))
        if leaves:
            yield "gathered in", f"{leaves}: gradients arrive there, and FSDP divides them"
        row = self.gathered.get(tensor)
        if row is not None:
            several = len(row.names) > FEW
            names = ", ".join(row.names[:FEW]) + f" and {len(row.names) - FEW} more" * several
            yield "filled by FSDP", f"holds {names}, gathered from all ranks"


def part_in_words(shard: Shard | None, whole: str) -> str:
    """As in "[3, 4] of [5, 4] float32, Shard(0)"; None: the tensor is not divided.

    `whole`: shape and dtype of the whole tensor.
    """
    if shard is None:
        return whole
    local = f"[{', '.join(map(str, shard.local))}]" if shard.local else "scalar"
    return f"{local} of {whole}, {shard.placements}"
