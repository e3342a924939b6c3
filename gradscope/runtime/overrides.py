"""Subclasses and modes that want to see a call before it runs: `__torch_function__`."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.operation import Operation
from gradscope.runtime.state import ThreadState, local


def noticed() -> None:
    """From now on every call asks whether an argument's class handles functions itself."""
    ThreadState.subclassed = True
    for state in list(ThreadState.all):
        state.refresh()


def leave_alone(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """A `__torch_function__` for subclasses that want none, such as Parameter."""
    with disabled():
        return func(*args, **(kwargs or {}))


def converted(result: Any, cls: Any) -> Any:
    """Tensors in a result as instances of the subclass that was called on."""
    from gradscope.runtime.tensor import Tensor

    if type(result) is Tensor and cls is not Tensor:
        return result.as_subclass(cls)
    if isinstance(result, list | tuple):
        items = [converted(item, cls) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


def _overriders(arguments: Any, found: list[Any]) -> list[Any]:
    """The arguments whose class handles functions itself, subclasses before their bases."""
    for argument in arguments:
        if isinstance(argument, list | tuple):
            _overriders(argument, found)
            continue
        cls = type(argument)
        if getattr(cls, "overrides_functions", False) and all(type(f) is not cls for f in found):
            place = next(
                (i for i, other in enumerate(found) if issubclass(cls, type(other))), len(found)
            )
            found.insert(place, argument)
    return found


def handle(op: Operation, arguments: tuple[Any, ...], state: ThreadState) -> Any:
    """Offer the call to the innermost mode, then to each overriding class."""
    from gradscope.runtime.call import below_modes

    found = _overriders(arguments, [])
    types = tuple(type(argument) for argument in found)
    if state.function_modes:
        mode = state.function_modes.pop()
        state.refresh()
        try:
            result = mode.__torch_function__(op.road, types, arguments, {})
        finally:
            state.function_modes.append(mode)
            state.refresh()
        if result is not NotImplemented:
            return result
    for argument in found:
        result = type(argument).__torch_function__(op.road, types, arguments, {})
        if result is not NotImplemented:
            return result
    if found:
        names = ", ".join(cls.__name__ for cls in types)
        raise TypeError(
            f"Multiple dispatch failed for 'torch.{op.base_name}'; "
            f"all __torch_function__ handlers returned NotImplemented: {names}"
        )
    return below_modes(op, arguments)


class disabled:  # noqa: N801  (a context manager, used like `no_grad`)
    """Inside, overriding classes are treated as plain tensors."""

    def __enter__(self) -> None:
        self.before = local.state.overrides_disabled
        local.state.overrides_disabled = True

    def __exit__(self, *error: object) -> None:
        local.state.overrides_disabled = self.before
