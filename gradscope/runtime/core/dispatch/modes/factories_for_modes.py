"""Functions that are not in the table of operations, but that dispatch modes see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import local

SIZED = ("empty", "ones", "rand", "randn", "zeros")
OUTLYING = {
    **{name: f"{name}.default" for name in SIZED},
    **{f"{name}_like": f"{name}_like.default" for name in (*SIZED, "full")},
    "arange": "arange.default", "eye": "eye.default", "full": "full.default",
    "linspace": "linspace.default", "randint": "randint.low", "randperm": "randperm.default",
    "tensor": "lift_fresh.default",
}  # fmt: skip
"""Functions of the top module that create tensors."""

METHODS = {"detach": "detach.default", "item": "_local_scalar_dense.default"}


def outlying(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
    """The function, offered to dispatch modes if there are any."""

    @layout_only
    def dispatched(*args: Any, **kwargs: Any) -> Any:
        if not local.state.dispatch_modes:
            return act(*args, **kwargs)
        return _seen(name, act, args, kwargs)

    return dispatched


def _seen(name: str, act: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    if name == "lift_fresh.default":  # a tensor is first created, then shown
        return upward.given_to_modes(name, (act(*args, **kwargs),), {}, lambda made: made)
    requires_grad = kwargs.pop("requires_grad", False)
    base = name.partition(".")[0]
    options = dict(kwargs)
    if base in SIZED:
        args = (_sizes(args, options),)
    if name in OUTLYING.values():
        options = {key: value for key, value in options.items() if value is not None}
    made = upward.given_to_modes(name, tuple(args), options, act)
    return made.requires_grad_(True) if requires_grad else made


def _sizes(args: Sequence[Any], options: dict[str, Any]) -> list[int]:
    if not args and "size" in options:
        args = (options.pop("size"),)
    return list(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else list(args)
