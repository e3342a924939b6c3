"""The operator of a node, and which saved values are its results, by PyTorch's own registry.

A node is named after its operator as PyTorch's code generator names it: `nll_loss_forward` creates
`NllLossBackward0`. A slot is named after the argument or result that it saves: `total_weight` is a
result of `nll_loss_forward`, and an argument of `nll_loss_backward`, which creates
`NllLossBackwardBackward0`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import torch

_UNNAMED = re.compile(r"(?:result|output)(\d*)")
"""Matches slots with a result that the schema does not name, and its index."""

_WITHOUT_GRADIENT = {"LinalgLuBackward": "P"}
"""Results without a gradient that are returned before some with one."""

_NUMBER = re.compile(r"\d+$")


def own_result(node: str, slot: str) -> int | None:
    """The index of the result that a node saves in this slot; None: it is not a result.

    Results that have no gradient are counted after the others, as a node does not know them.
    """
    name = _NUMBER.sub("", node.rpartition("::")[2])
    arguments, results = _names(name)
    if slot in arguments:
        return None
    if slot in results:
        return results[slot]
    found = _UNNAMED.fullmatch(slot)
    return None if found is None else int(found[1] or 0)


@cache
def operator_of(node: str) -> str | None:
    """The operator that creates a node of this name, as `_softmax` for `SoftmaxBackward0`.

    None: it is not the name of an operator's node. An operator that is composed of others has no
    node, and one that writes in place has the same node as the one that does not.
    """
    name = _NUMBER.sub("", node)
    found = set() if name == node else {
        each.partition(".")[0]
        for each in _registered().get(name, ())
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{each}", COMPOSED)
    }  # fmt: skip
    return min(found, key=lambda each: (each.endswith("_"), len(each)), default=None)


COMPOSED = "CompositeImplicitAutograd"


@cache
def _registered() -> dict[str, list[str]]:
    """The operators of PyTorch, with their overloads, by the names of their nodes."""
    found: dict[str, list[str]] = {}
    for each in torch._C._dispatch_get_all_op_names():
        space, _, name = each.partition("::")
        if space == "aten" and not name.endswith("out"):
            found.setdefault(_node_of(name.partition(".")[0]), []).append(name)
    return found


@cache
def _names(node: str) -> tuple[set[str], dict[str, int]]:
    """The names of arguments, and of results with their index, of the operators of a node."""
    arguments: set[str] = set()
    results: dict[str, int] = {}
    for schema in _operators().get(node, ()):
        arguments.update(each.name for each in schema.arguments if not each.is_out)
        last = _WITHOUT_GRADIENT.get(node)
        named = sorted((each.name for each in schema.returns), key=lambda name: name == last)
        for index, name in enumerate(named):
            results.setdefault(name, index)
    return arguments, results


@cache
def _operators() -> dict[str, list[Any]]:
    """The schemas of PyTorch's operators, by the names of their nodes."""
    found: dict[str, list[Any]] = {}
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space == "aten":
            found.setdefault(_node_of(name), []).append(schema)
    return found


def _node_of(operator: str) -> str:
    """`NllLossBackward` for `nll_loss_forward`."""
    words = "".join(word.title() for word in operator.split("_"))
    return f"{words}Backward".replace("ForwardBackward", "Backward")
