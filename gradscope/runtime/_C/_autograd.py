"""`torch._C._autograd`: hooks on saved tensors, version counters and views, low level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.autograd.engine.current_task import (
    keeps_graph as _get_current_graph_task_keep_graph,
)
from gradscope.runtime.core.autograd.hooks.saving import disable, pop, push, top
from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.graph.node import InputMetadata as _InputMetadata
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.core.tensors.saved.saved_attributes import SavedTensor
from gradscope.runtime.core.tensors.tensor.autograd_meta import CreationMeta
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

__all__ = [
    "CreationMeta",
    "SavedTensor",
    "_InputMetadata",
    "_get_creation_meta",
    "_get_current_graph_task_keep_graph",
    "_get_data_attr",
    "_pop_saved_tensors_default_hooks",
    "_push_saved_tensors_default_hooks",
    "_saved_tensors_hooks_disable",
    "_saved_tensors_hooks_enable",
    "_saved_tensors_hooks_get_disabled_error_message",
    "_saved_tensors_hooks_is_enabled",
    "_set_creation_meta",
    "_top_saved_tensors_default_hooks",
    "_unsafe_set_version_counter",
]


def _saved_tensors_hooks_is_enabled() -> bool:
    return local.state.disabled_saved_hooks is None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    return local.state.disabled_saved_hooks


def _saved_tensors_hooks_disable(error_message: str, fail_if_non_empty: bool = True) -> None:
    """Refuse saved-tensor hooks from now on, with this message."""
    disable(error_message, fail_if_non_empty=fail_if_non_empty)


def _saved_tensors_hooks_enable() -> None:
    local.state.disabled_saved_hooks = None


def _push_saved_tensors_default_hooks(pack_hook: Any, unpack_hook: Any) -> None:
    """Use these hooks for everything that is saved from now on."""
    if not (callable(pack_hook) and callable(unpack_hook)):
        raise TypeError(
            "_push_saved_tensors_default_hooks(): incompatible function arguments. The following "
            "argument types are supported:\n    (arg0: Callable, arg1: Callable) -> None"
        )
    push(pack_hook, unpack_hook)


def _pop_saved_tensors_default_hooks() -> None:
    """Remove the last pair of hooks."""
    pop()


def _top_saved_tensors_default_hooks(ignore_is_tracing: bool) -> Any:
    """The last (pack, unpack), or None."""
    return top()


def _unsafe_set_version_counter(tensors: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Set the version counters of tensors. Gradients may become wrong."""
    tensors, versions = list(tensors), list(versions)
    if len(tensors) != len(versions):
        raise RuntimeError(f"tensors_len={len(tensors)}, versions_len={len(versions)}")
    for tensor, version in zip(tensors, versions, strict=True):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        if tensor._versions is None:
            tensor._versions = VersionCounter()
        tensor._versions.value = version


def _get_creation_meta(view: Tensor) -> CreationMeta:
    """How a view was created."""
    return _view_meta(view).creation


def _set_creation_meta(view: Tensor, creation: CreationMeta) -> None:
    """Set how a view was created, which decides whether it may be modified in place."""
    _view_meta(view).creation = creation


def _view_meta(view: Tensor) -> Any:
    if not view._is_view():
        raise RuntimeError("Expected meta != nullptr to be true, but got false.")
    return view._meta


def _get_data_attr(tensor: Tensor) -> Tensor:
    return tensor.data


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch._C._autograd", name, __all__)
