"""Tensors that are divided among ranks, and what this rank holds of them.

Nothing here communicates, waits, or calls an operation: attributes are read that the tensor, or
the module that FSDP shards, already has. PyTorch's modules are not imported, only looked up.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from gradscope.watch.in_place.by_identity import attributes, is_a

HOMES = ("torch.distributed.tensor", "torch.distributed._tensor")  # the second until 2.4
STATES = "torch.distributed._composable_state"
FUNCTIONAL_HOME = "torch.distributed._functional_collectives"


def _dtensor() -> Any:
    """The class of DTensors; None: the program has not imported it."""
    for home in HOMES:
        found = getattr(sys.modules.get(home), "DTensor", None)
        if found is not None:
            return found
    return None


def is_sharded(tensor: Any) -> bool:
    """Whether it is a DTensor."""
    kind = _dtensor()
    return kind is not None and is_a(tensor, kind)


def local_part(tensor: Any) -> Any:
    """The tensor with the part that this rank holds, for a DTensor; any other is returned."""
    return getattr(tensor, "_local_tensor", tensor) if is_sharded(tensor) else tensor


def placements_of(tensor: Any) -> str:
    """How a DTensor is divided, one word for each dim of its mesh: "Shard(0), Replicate"."""
    spec = getattr(tensor, "_spec", None)
    return ", ".join(map(_in_words, getattr(spec, "placements", ())))


def _in_words(placement: Any) -> str:
    kind, dim = type(placement).__name__.lstrip("_"), getattr(placement, "dim", None)
    return kind if dim is None else f"{kind}({dim})"


def gathers(module: Any) -> bool:
    """Whether `fully_shard` was applied to a module: its forward uses gathered parameters."""
    return any(each.__name__ == "FSDPModule" for each in type(module).__mro__)


def gathered_in(module: Any) -> list[tuple[Any, Any, str]]:
    """The leaves into which `fully_shard` gathers parameters: leaf, parameter and its name."""
    states: Any = sys.modules.get(STATES)
    state = None
    with suppress(AssertionError):  # it is gone
        state = states and states._get_module_state(module)
    groups = getattr(state, "_fsdp_param_groups", None)  # until 2.12 there is one
    groups = [getattr(state, "_fsdp_param_group", None)] if groups is None else groups
    parts = [attributes(each) for group in groups for each in getattr(group, "fsdp_params", ())]
    return [
        (part["_unsharded_param"], part["sharded_param"], str(part.get("_param_fqn") or ""))
        for part in parts
        if "_unsharded_param" in part
    ]


def flattened_in(leaf: Any) -> tuple[list[str], list[Any]]:
    """The names of the parameters that a flat parameter of FSDP holds, and those that exist.

    Parameters exist next to it only with `use_orig_params`.
    """
    found = attributes(leaf)
    if not found.get("_is_flat_param"):
        return [], []
    return [str(name) for name in found.get("_fqns") or ()], list(found.get("_params") or ())
