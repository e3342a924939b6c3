"""The only access to a tensor's memory for readers in Python.

# Note [Whose memory]
Memory is read only where it is proven to be the tensor's own. Many tensors have none: a DTensor or
another wrapper, a FakeTensor, a tensor inside vmap. Others show numbers that are not the bytes in
memory (a conjugate view, a quantised tensor), or their storage was freed or is too small. Dispatch
keys show the kind of a tensor. It is read if its keys are exactly those of a plain tensor on the
CPU, and only inside its storage. A plain tensor on another device is measured there, by operations
of PyTorch (devices/). All others are counted as not looked at. Compiled readers check
the same words of the tensor (measure.py). Of a DTensor, callers read the part that this rank holds,
if that is a plain tensor: a part that a collective is still filling is not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from gradscope.watch.unseen import unseen

_keys, _data_of = torch._C._dispatch_keys, torch._C._data_address
_storage_address = torch._C._storage_address
_Without = torch._C.DisableTorchFunction
_Base: Any = torch.Tensor.__base__  # a subclass may override methods
_size, _stride, _offset = _Base.size, _Base.stride, _Base.storage_offset
_item, _storage = _Base.element_size, _Base.untyped_storage
_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.argtypes, _view.restype = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object
READ_ONLY = 0x100
_raw: Callable[[Any], Any] = getattr(torch._C.DispatchKeySet, "raw_repr", repr)  # not in 2.4


def _plain() -> frozenset[Any]:
    """The dispatch keys of plain CPU tensors, created outside of inference mode and inside."""
    made = []
    with unseen():
        for inside in (False, True):
            with torch.inference_mode(inside):
                made.append(torch.empty(0, dtype=torch.float32, device="cpu"))
    return frozenset(_raw(_keys(each)) for each in made)


_PLAIN = _plain()
_not_looked_at = [0]


def not_looked_at() -> int:
    """Number of tensors in this process that were requested and not read."""
    return _not_looked_at[0]


def memory(tensor: Any) -> memoryview | None:
    """The bytes from a tensor's first element to its last; None: not readable, which is counted.

    They may be read while the tensor is alive and its storage is not resized.
    """
    found = uncounted_memory(tensor)
    _not_looked_at[0] += found is None
    return found


def uncounted_memory(tensor: Any) -> memoryview | None:
    """Like `memory`, for readers that say themselves what they have not read."""
    if _raw(_keys(tensor)) in _PLAIN:
        with _Without():
            first, end = _extent(tensor)
            if first == end:
                return memoryview(b"")
            at = _data_of(tensor)
            if at and end <= _bytes_of(tensor):
                found: memoryview = _view(at + first, end - first, READ_ONLY)
                return found
    return None


def _extent(tensor: Any) -> tuple[int, int]:
    """Offsets in bytes in its storage: of the first element, and behind the last one."""
    sizes, size = _size(tensor), _item(tensor)
    first = _offset(tensor) * size
    if 0 in sizes:
        return first, first
    last = sum((n - 1) * step for n, step in zip(sizes, _stride(tensor), strict=True))
    return first, first + (last + 1) * size


@cache
def _plain_on(device: Any) -> tuple[frozenset[Any], bool]:
    """The dispatch keys of plain tensors on a device, and whether they show an address."""
    made = torch.empty(1, dtype=torch.float32, device=device)
    with torch.inference_mode():
        inside = torch.empty(1, dtype=torch.float32, device=device)
    return frozenset((_raw(_keys(made)), _raw(_keys(inside)))), _data_of(made) != 0


def is_plain_on_device(tensor: Any) -> bool:
    """Whether it is a plain tensor on another device than the CPU, inside of its storage.

    Called where operations of ours are unnoticed. Some backends show no addresses.
    """
    device = tensor.device
    if device.type in {"cpu", "meta"}:
        return False
    keys, has_address = _plain_on(device)
    if _raw(_keys(tensor)) not in keys:
        return False
    if not has_address:
        return True
    first, end = _extent(tensor)
    return first == end or (_data_of(tensor) != 0 and end <= _bytes_of(tensor))


# Note [Objects of storages]
# From PyTorch 2.13 on, a storage that once had a Python object keeps it, and counts as referred to
# twice. PyTorch adds to a gradient in place only if nothing else refers to its storage. So there
# the size is read from memory, where it is found in storages of known sizes.


def _bytes_of(tensor: Any) -> int:
    """The size in bytes of a tensor's storage. See Note [Objects of storages]."""
    if _SIZE_AT == NO_TRACE:
        return int(_storage(tensor).nbytes())
    return _word(_storage_address(tensor) + _SIZE_AT) if _SIZE_AT >= 0 else 0


NO_TRACE, NOT_FOUND = -1, -2
WORDS = 10
"""Number of words of a storage that are searched for its size."""


def _size_at() -> int:
    """The offset of the size in a storage. NO_TRACE: Python may ask for the size."""
    with unseen(), torch.inference_mode(mode=False), torch.no_grad():
        made = [torch.empty(size, dtype=torch.uint8, device="cpu") for size in (12345, 777, 4099)]
    storages = [_storage_address(each) for each in made]
    with _Without():
        sizes = [_storage(each).nbytes() for each in made]
        if torch._C._storage_Use_Count(storages[0]) == 1:
            return NO_TRACE
    found = [
        8 * at for at in range(WORDS) if [_word(storage + 8 * at) for storage in storages] == sizes
    ]
    return found[0] if len(found) == 1 else NOT_FOUND


def _word(address: int) -> int:
    return int(ctypes.c_int64.from_address(address).value)


_SIZE_AT = _size_at()


def address(tensor: Any) -> int:
    """The address of its first element, on any device; 0: it has no memory of its own."""
    try:
        at = _data_of(tensor)
        with _Without():
            return at + _offset(tensor) * _item(tensor) if at else 0
    except (RuntimeError, NotImplementedError):
        return 0
