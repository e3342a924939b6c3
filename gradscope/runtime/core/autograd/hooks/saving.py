"""Hooks on all tensors that are saved for backward inside a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.core.errors.engine import saved_values as errors
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.making.factories import empty


class saved_tensors_hooks:  # noqa: N801  (PyTorch's names, here and below)
    """Saves the result of `pack_hook` in place of a tensor; `unpack_hook` restores the tensor."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        push(self.pack_hook, self.unpack_hook)

    def __exit__(self, *error: object) -> None:
        pop()


def push(pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
    """Use these hooks for everything that this thread saves from now on."""
    state = local.state
    if state.disabled_saved_hooks is not None:
        raise errors.saved_hooks_disabled(state.disabled_saved_hooks)
    state.saved_hooks.append((pack_hook, unpack_hook))
    state.refresh()


def pop() -> None:
    """Remove the last hooks."""
    state = local.state
    state.saved_hooks.pop()
    state.refresh()


def top() -> Any:
    """The last (pack, unpack), or None."""
    hooks = local.state.saved_hooks
    return hooks[-1] if hooks else None


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """Save tensors in host memory. Those on the CPU stay unchanged."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> Any:
            if not pin_memory:
                return tensor.device, tensor.cpu()
            copied = empty(tensor.size(), dtype=tensor.dtype)
            copied.copy_(tensor)
            return tensor.device, copied

        def unpack(packed: Any) -> Any:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Refuse saved-tensor hooks inside the block, with this message."""
    before = local.state.disabled_saved_hooks
    disable(error_message)
    try:
        yield
    finally:
        local.state.disabled_saved_hooks = before


def disable(error_message: str, *, fail_if_non_empty: bool = True) -> None:
    """Refuse saved-tensor hooks from now on."""
    if not isinstance(error_message, str):
        raise TypeError(
            "_saved_tensors_hooks_disable(): incompatible function arguments. The following "
            "argument types are supported:\n    (error_message: str)"
        )
    state = local.state
    if state.saved_hooks and fail_if_non_empty:
        raise errors.saved_hooks_disabled(error_message)
    state.disabled_saved_hooks = error_message
