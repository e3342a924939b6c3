"""Modules as functions of their tensors: functional_call, stack_module_state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.nn.utils import stateless
from gradscope.runtime.ops import FUNCTIONS


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with these tensors instead of its parameters and buffers."""
    given = parameter_and_buffer_dicts
    if isinstance(given, Sequence):
        given = _joined(given)
    elif not isinstance(given, dict):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(given)}"
        )
    return stateless.call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def _joined(dicts: Any) -> dict[str, Any]:
    if not all(isinstance(one, dict) for one in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    keys = [key for one in dicts for key in one]
    repeated = [key for key in dict.fromkeys(keys) if keys.count(key) > 1]
    if repeated:
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
            "ambiguous"
        )
    return {key: tensor for one in dicts for key, tensor in one.items()}


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of several modules of one kind beside each other, and their buffers."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(model.training != models[0].training for model in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return (
        _beside([dict(model.named_parameters()) for model in models]),
        _beside([dict(model.named_buffers()) for model in models]),
    )


def _beside(dicts: list[dict[str, Any]]) -> dict[str, Any]:
    made = {}
    for key, first in dicts[0].items():
        each = [one[key] for one in dicts]
        wanted = first.requires_grad
        if any(one.requires_grad != wanted for one in each):
            raise RuntimeError(f"Expected {key} from each model to have the same .requires_grad")
        stacked = FUNCTIONS["stack"]([one.detach() for one in each])
        made[key] = stacked.requires_grad_(wanted)
    return made
