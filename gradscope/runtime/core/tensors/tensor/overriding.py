"""`__torch_function__`: offers calls to classes and modes; the error if none takes it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Protocol

from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.frames import stood_for
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors import wrapping

SUBCLASSES, ALL, SKIP = 1, 2, 4
"""What is disabled on a thread: overriding classes, or modes as well; or both for one call only,
which is combined with the others.
"""

PLAIN_METHOD = (
    "Defining your `__torch_function__{} as a plain method is deprecated and will be an error in "
    "future, please define it as a classmethod."
)


class Offered(Protocol):
    """A function whose call is offered."""

    label: str
    given: Any
    python: bool


class disabled:  # noqa: N801  (a context manager, used like `no_grad`)
    """Treat instances of overriding classes as plain tensors inside the block."""

    level = SUBCLASSES

    def __init__(self) -> None:
        self._before: list[int] = []

    def __enter__(self) -> None:
        state = local.state
        self._before.append(state.overrides_disabled)
        state.overrides_disabled = max(state.overrides_disabled, self.level)

    def __exit__(self, *error: object) -> None:
        local.state.overrides_disabled = self._before.pop()


class all_disabled(disabled):  # noqa: N801
    """The same, and modes do not see calls either."""

    level = ALL


def skipped() -> bool:
    """Whether this is the one call that is hidden."""
    state = local.state
    if state.overrides_disabled < SKIP:
        return False
    state.overrides_disabled -= SKIP
    return True


def leave_alone(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """A `__torch_function__` for subclasses that override nothing, such as Parameter."""
    with disabled():
        return func(*args, **(kwargs or {}))


@layout_only
def overriders(values: Iterable[Any], *, plain: bool = False) -> list[Any]:
    """One value of each overriding class, subclasses before their bases.

    With `plain`, tensors of no subclass are included.
    """
    found: list[Any] = []
    for value in values:
        items = value if isinstance(value, list | tuple) else (value,)
        for item in items:
            cls = type(item)
            if overrides(cls, plain=plain) and all(type(f) is not cls for f in found):
                place = next(
                    (i for i, other in enumerate(found) if issubclass(cls, type(other))), len(found)
                )
                found.insert(place, item)
    return found


@layout_only
def overrides(cls: type, *, plain: bool = False) -> bool:
    """Whether a class overrides functions."""
    handler = getattr(cls, "__torch_function__", None)
    if handler is None or handler is leave_alone:
        return False
    return plain or "_array" not in cls.__dict__  # Tensor itself declares it


def as_instances(cls: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """The result of a call as for plain tensors, with its tensors as instances of `cls`."""
    if not all(issubclass(cls, each) for each in types):
        return NotImplemented
    with disabled():
        result = func(*args, **(kwargs or {}))
        return result if func in unwrapped() else _converted(result, cls)


def _converted(result: Any, cls: Any) -> Any:
    if cls is wrapping.Tensor:
        return result
    if isinstance(result, wrapping.Tensor) and not isinstance(result, cls):
        result = result.as_subclass(cls)
    if isinstance(result, list | tuple):
        items = [_converted(item, cls) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


def unwrapped() -> set[Any]:
    """Functions whose results are not converted to the subclass."""
    properties: Any = wrapping.Tensor
    known = properties._base, properties.grad, properties._grad
    return {each.__get__ for one in known for each in (one, stood_for(one))}


def handle(
    offered: Offered,
    found: Iterable[Any],
    types: tuple[type, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Offer a call to the innermost mode, then to each overriding class."""
    modes = local.state.function_modes
    asked = None
    if modes:
        asked = mode = modes.pop()
        try:
            result = mode.__torch_function__(offered.given, types, args, kwargs)
        finally:
            modes.append(mode)
        if result is not NotImplemented:
            return result
    for value in found:
        handler = value.__torch_function__
        if getattr(handler, "__self__", None) is value:
            _warn_of_a_plain_method(offered)
        result = handler(offered.given, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(_refusal(offered, found, asked))


def _warn_of_a_plain_method(offered: Offered) -> None:
    tick, kind = ("", DeprecationWarning) if offered.python else ("`", UserWarning)
    warnings.warn(PLAIN_METHOD.format(tick), kind, stacklevel=7)


def _refusal(offered: Offered, found: Iterable[Any], mode: Any) -> str:
    """The error if no class or mode handled a call."""
    classes = [type(value) for value in found]
    if offered.python:
        text = (
            f"no implementation found for '{offered.label}' on types that implement "
            f"__torch_function__: {classes}"
        )
        return text if mode is None else f"{text} nor in mode {mode}"
    asked = [] if mode is None else [f"  - mode object {mode}"]
    asked += [f"  - tensor subclass {cls}" for cls in classes]
    lines = "\n".join(asked)
    return (
        f"Multiple dispatch failed for '{offered.label}'; all __torch_function__ handlers "
        f"returned NotImplemented:\n\n{lines}"
    )
