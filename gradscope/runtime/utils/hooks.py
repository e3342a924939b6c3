"""`torch.utils.hooks`: common parts of hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gradscope.runtime.core.state.hook_handles import RemovableHandle
from gradscope.runtime.core.tensors.copying import warn_if_has_hooks
from gradscope.runtime.nn.modules.module_parts.backward_hook import BackwardHook

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

F = TypeVar("F", bound=Callable[..., Any])


def unserializable_hook(f: F) -> F:
    """Mark a hook that is not serialized with its tensor, so that no warning is given."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f
