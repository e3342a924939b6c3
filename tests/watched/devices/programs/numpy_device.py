"""A device without C++: `torch.device("npy")`, whose tensors are kept in tensors of the CPU.

The device has one index, so PyTorch's engine starts one thread for it, and runs the nodes there
whose gradients are on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("npy")


_memory: dict[int, torch.Tensor] = {}
"""For the storage of a tensor of the device, the memory of the CPU that has its values."""


def _unwrapped(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.device.type == "npy":
        memory = _memory[value.untyped_storage()._cdata]
        offset = memory.storage_offset() + value.storage_offset()
        return memory.as_strided(value.size(), value.stride(), offset)
    if isinstance(value, (list, tuple)):
        return type(value)(_unwrapped(each) for each in value)
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _wrapped(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        made: Any = torch._C._acc.create_empty_tensor(tuple(value.shape), value.dtype)
        _memory[made.untyped_storage()._cdata] = value.contiguous().view(-1)
        return made
    return type(value)(map(_wrapped, value)) if isinstance(value, (list, tuple)) else value


def _run(operation: Any, *args: Any, **more: Any) -> Any:
    """Any operation of the device: the same one, on the CPU."""
    given = {**dict(zip((a.name for a in operation._schema.arguments), args)), **more}
    result = operation(*_unwrapped(args), **{name: _unwrapped(each) for name, each in more.items()})
    written = [
        given[a.name]
        for a in operation._schema.arguments
        if a.alias_info is not None and a.alias_info.is_write and a.name in given
    ]
    if written:
        return written[0] if len(written) == 1 else tuple(written)
    return _wrapped(result)


def at_once(work: Callable[[], Any], to_cpu: bool, non_blocking: bool) -> None:
    """Copy now."""
    work()


copies = at_once
"""What is called for each copy between the device and the CPU."""


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    there, here = _unwrapped(target), _unwrapped(source)
    copies(lambda: there.copy_(here), target.device.type == "cpu", non_blocking)
    return target


_library = torch.library.Library("_", "IMPL")
_library.fallback(_run, "PrivateUse1")
torch.library.impl("aten::_copy_from", "privateuseone")(_copy_from)
