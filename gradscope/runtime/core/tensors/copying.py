"""Copies of tensors: copy, deepcopy and pickle. Shared memory is also shared in the copy."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors.engine.leaves import copy_of_non_leaf
from gradscope.runtime.core.graph.node import new
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.memory.bits import PLAIN, bits_of, origin_of
from gradscope.runtime.core.tensors.memory.storage import Storage, strided
from gradscope.runtime.core.tensors.memory.typed_storage import TypedStorage
from gradscope.runtime.core.tensors.tensor.geometry import strides_of
from gradscope.runtime.core.tensors.tensor.tensor import Tensor, add_methods
from gradscope.runtime.core.tensors.views.inference import mark


def deep_copy(tensor: Any, memo: dict[Any, Any]) -> Any:
    """A copy with its own memory. Only leaves can be copied."""
    if not tensor.is_leaf:
        raise copy_of_non_leaf(tensor)
    if id(tensor) in memo:
        return memo[id(tensor)]
    made = _copied_memory(tensor, memo.setdefault("gradscope storages", {}))
    memo[id(tensor)] = made
    if tensor.requires_grad:
        made.requires_grad_(True)
    if tensor._grad is not None:
        made.grad = deepcopy(tensor._grad, memo)
    set_state(made, deepcopy(state_of(tensor), memo))
    return made


def _copied_memory(tensor: Any, copies: dict[int, Storage]) -> Any:
    storage, array = tensor.untyped_storage(), tensor._array
    if bits_of(tensor) != PLAIN:  # copy the values it shows
        array = array.copy(order="K")
        return _on(Storage(array, storage.device), array, type(tensor))
    key = id(storage.array)
    if key not in copies:
        whole = array.nbytes == len(storage.bytes())
        if whole:  # not visible elsewhere: an array of its own, as in a new tensor
            array = array.copy(order="K")
            copies[key] = Storage(array, storage.device)
            return _on(copies[key], array, type(tensor))
        copies[key] = Storage(storage.bytes().copy(), storage.device)
    offset = tensor.storage_offset()
    window = strided(copies[key], array.dtype, array.shape, strides_of(array), offset)
    return _on(copies[key], window, type(tensor))


def _on(storage: Storage, array: Any, cls: type) -> Any:
    """A leaf of this class on a storage, with this array."""
    made: Any = new(cls)
    made._array = array
    made._edge = made._meta = made._versions = None
    made._storage = storage
    made.record_nr = 0
    if local.state.inference:
        mark(made)
    return made


WITHOUT_STORAGE = (dtypes.uint16, dtypes.uint32, dtypes.uint64)
"""Dtypes without typed storages in PyTorch: a pickle has their bytes, and the dtype separately."""


# Reducing and rebuilding ------------------------------------------------------------------------


def reduce(tensor: Any, protocol: Any = None) -> Any:
    """How copy and pickle reduce a tensor. A non-leaf becomes a leaf."""
    warn_if_has_hooks(tensor)
    rebuild: Callable[..., Any] = rebuild_tensor
    parts = parts_of(tensor)
    if tensor.dtype in WITHOUT_STORAGE:
        bare = TypedStorage(origin_of(tensor), None)
        rebuild, parts = rebuild_of_dtype, (bare, *parts[1:6], tensor.dtype, *parts[6:])
    state = state_of(tensor)
    if type(tensor) is Tensor and not state:
        return rebuild, parts
    return rebuild_subclass, (rebuild, type(tensor), parts, state)


def parts_of(tensor: Any) -> tuple[Any, ...]:
    """Storage, offset, sizes, strides, requires_grad, no hooks, and its bits."""
    bits = {name: True for name, is_set in bits_of(tensor)._asdict().items() if is_set}
    return (
        TypedStorage(origin_of(tensor), tensor.dtype),
        tensor.storage_offset(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.requires_grad,
        OrderedDict(),
        *([bits] if bits else []),
    )


def rebuild_tensor(
    storage: TypedStorage,
    offset: int,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    requires_grad: bool,
    backward_hooks: Any,
    metadata: dict[str, bool] | None = None,
) -> Any:
    """A leaf from its parts. `metadata` has the conj and neg bits."""
    untyped = storage.bare
    dtype = dtypes.uint8 if storage.dtype is None else storage.dtype
    array = strided(untyped, dtype.numpy, tuple(sizes), tuple(strides), offset)
    made = _on(untyped, array, Tensor)
    if metadata:
        made = made.conj().detach() if metadata.get("conj") else made
        made = made._neg_view().detach() if metadata.get("neg") else made
    return made.requires_grad_(True) if requires_grad else made


def rebuild_plain(
    storage: TypedStorage, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> Any:
    """A tensor from its parts, in an old format of PyTorch."""
    return rebuild_tensor(storage, offset, sizes, strides, False, None)


def rebuild_of_dtype(
    storage: TypedStorage,
    offset: int,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    requires_grad: bool,
    backward_hooks: Any,
    dtype: Any,
    metadata: dict[str, bool] | None = None,
) -> Any:
    """A leaf of a dtype without typed storage in PyTorch: its storage holds bytes."""
    typed = TypedStorage(storage.bare, dtype)
    return rebuild_tensor(typed, offset, sizes, strides, requires_grad, backward_hooks, metadata)


def rebuild_subclass(
    rebuild: Callable[..., Any], cls: type, parts: tuple[Any, ...], state: Any
) -> Any:
    """An instance of a subclass, or a tensor with attributes."""
    made = rebuild(*parts)
    if type(made) is not cls:
        made = made.as_subclass(cls)
    own_way = getattr(cls, "__setstate__", None)
    (set_state if own_way is None else own_way)(made, state)
    return made


def state_of(tensor: Any) -> Any:
    """Users' additions: attributes, and slots of a subclass."""
    attributes = {k: v for k, v in tensor.__dict__.items() if k != "wrapped_number"}
    slots = {name: getattr(tensor, name) for name in _slots(type(tensor)) if hasattr(tensor, name)}
    return (attributes, slots) if slots else attributes


def _slots(cls: type) -> list[str]:
    """The names in `__slots__` of a subclass of Tensor."""
    names: list[str] = []
    for base in cls.__mro__[: cls.__mro__.index(Tensor)]:
        slots = base.__dict__.get("__slots__", ())
        names += (slots,) if isinstance(slots, str) else slots
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def set_state(tensor: Any, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    tensor.__dict__.update(attributes)
    for name, value in slots.items():
        setattr(tensor, name, value)


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of hooks that are not serialized, unless they are marked as such."""
    for hook in list((tensor._backward_hooks or {}).values()):
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
                UserWarning,
                stacklevel=2,
            )


# Parameters -------------------------------------------------------------------------------------


add_methods(__deepcopy__=deep_copy, __reduce_ex__=reduce)
