"""Which tensors a collective of the program reads and writes, and which nodes made what it reads.

Only collectives that are called with gradients enabled and outside of a backward are looked at: in
the forward of a custom Function they are off, as under `no_grad`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gradscope.watch.in_place.by_identity import is_a
from gradscope.watch.runs.engine_threads import task_here
from gradscope.watch.unseen import unseen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gradscope.watch.called.ranks.carried import CarriedWrites

READS = {
    "all_gather": "tensor", "all_gather_into_tensor": "input_tensor",
    "all_gather_single": "input_tensor", "all_reduce": "tensor",
    "all_to_all": "input_tensor_list", "all_to_all_single": "input", "broadcast": "tensor",
    "gather": "tensor", "reduce": "tensor", "reduce_scatter": "input_list",
    "reduce_scatter_single": "input", "reduce_scatter_tensor": "input", "scatter": "scatter_list",
}  # fmt: skip
"""The parameter with what a collective reads: a tensor or several."""

WRITES = {
    "all_gather": "tensor_list", "all_gather_into_tensor": "output_tensor",
    "all_gather_single": "output_tensor", "all_reduce": "tensor",
    "all_to_all": "output_tensor_list", "all_to_all_single": "output", "broadcast": "tensor",
    "gather": "gather_list", "recv": "tensor", "reduce": "tensor", "reduce_scatter": "output",
    "reduce_scatter_single": "output", "reduce_scatter_tensor": "output", "scatter": "tensor",
}  # fmt: skip
"""The parameter with what a collective writes."""

REDUCING = (
    "all_reduce", "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor",
)  # fmt: skip
MOST_TENSORS = 64
PLAIN = (torch.Tensor, torch.nn.Parameter)


def _tensors(asked: Mapping[str, Any], name: str | None) -> list[Any]:
    """The plain tensors that are passed as this parameter."""
    value: Any = None if name is None else asked.get(name)
    several: Any = value if is_a(value, (list, tuple)) else [value]
    return [each for each in several[:MOST_TENSORS] if type(each) in PLAIN]


def _looks() -> bool:
    return torch.is_grad_enabled() and task_here() < 0


def written(asked: Mapping[str, Any], name: str) -> list[Any]:
    """The tensors that a collective has written, if it is looked at."""
    return _tensors(asked, WRITES.get(name)) if _looks() else []


def nodes_behind(
    asked: Mapping[str, Any], name: str, carried: CarriedWrites | None
) -> list[tuple[int, str]]:
    """The nodes of this thread that made what a collective reads.

    Each with what gave the tensor without its graph: "data", "detach"; "": it has its graph.
    """
    found = []
    for each in _tensors(asked, READS.get(name)) if _looks() else ():
        with unseen():
            node = each.grad_fn
            if node is not None:
                found.append((int(node._sequence_nr()), ""))
            elif carried is not None and not each.requires_grad:
                made = carried.made(each)
                if made is not None:
                    found.append((made.sequence, "data" if made.counts_apart else "detach"))
    return found


def reduction(asked: Mapping[str, Any], name: str) -> str:
    """How a collective combines the tensors of ranks: "sum"; "": it does not, or is not known."""
    if name not in REDUCING:
        return ""
    if "op" not in asked:
        return "sum"
    return str(getattr(asked["op"], "name", "")).lower()


def carried_writes() -> CarriedWrites | None:
    """What follows the memory that collectives write; None: calls are not observed for that."""
    from gradscope.watch.called.ranks.carried import CarriedWrites, can_follow  # noqa: PLC0415 -- it compiles

    return CarriedWrites() if can_follow() else None
