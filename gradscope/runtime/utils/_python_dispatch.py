"""`torch.utils._python_dispatch`: modes that see operations below autograd."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from gradscope.runtime.core.dispatch.overrides.public import put_up_gates
from gradscope.runtime.core.state.thread import local

__all__ = [
    "TorchDispatchMode",
    "is_in_torch_dispatch_mode",
]


class TorchDispatchMode:
    """Inside `with mode:`, its `__torch_dispatch__` receives each operation, as `aten.…`.

    It runs below autograd: operations that it calls are not recorded, and its results get their
    graph afterwards. Operations of a backward are seen, too. Calls inside the mode go to the next
    outer mode.
    """

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        _push_mode(self)
        return self

    def __exit__(self, *error: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        warnings.warn(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`",
            stacklevel=2,
        )
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return cls.is_infra_mode()


def _push_mode(mode: Any) -> None:
    put_up_gates()
    state = local.state
    state.dispatch_modes.append(mode)
    state.refresh()


def _pop_mode(k: Any = None) -> Any:
    state = local.state
    mode = state.dispatch_modes.pop()
    state.refresh()
    return mode


@contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[Any]:
    mode = _pop_mode(k)
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Switch all modes off inside the block."""
    state = local.state
    before, state.dispatch_modes = state.dispatch_modes, []
    state.refresh()
    try:
        yield before
    finally:
        state.dispatch_modes = before
        state.refresh()


def _get_current_dispatch_mode() -> Any:
    modes = local.state.dispatch_modes
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    return list(local.state.dispatch_modes)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    modes = local.state.dispatch_modes
    return any(include_infra_modes or not mode.is_infra_mode() for mode in modes)
