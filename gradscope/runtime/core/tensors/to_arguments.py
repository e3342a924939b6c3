"""Arguments of `.to(…)`: a device, a dtype, a memory format."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from gradscope.runtime.core.devices.devices import device as device_type
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

WAYS = """
 * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = \
False, *, torch.memory_format memory_format = None)
 * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format \
memory_format = None)
 * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format \
memory_format = None)
"""


class ToOptions(NamedTuple):
    """The requested options; None if not given."""

    device: Any
    dtype: Any
    non_blocking: bool
    memory_format: Any


def wanted_of(given: tuple[Any, ...], named: dict[str, Any]) -> ToOptions:
    """The options of a module's `to`."""
    known = {"device": None, "dtype": None, "non_blocking": False, "copy": False, **named}
    rest: list[Any] = list(given)
    if rest and isinstance(rest[0], Tensor):
        tensor = rest.pop(0)
        known["device"], known["dtype"] = tensor.device, tensor.dtype
    elif rest and isinstance(rest[0], dtypes.dtype):
        known["dtype"] = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], str | int | device_type)):
        known["device"], *rest = rest
        if rest:
            known["dtype"], *rest = rest
            if known["dtype"] is not None and not isinstance(known["dtype"], dtypes.dtype):
                _refuse(given, named)
    if len(rest) > 2 or not all(isinstance(each, bool) for each in rest):
        _refuse(given, named)
    known.update(zip(("non_blocking", "copy"), rest, strict=False))
    if known["copy"]:
        raise RuntimeError(".to() does not accept copy argument")
    device = known["device"]
    if device is not None and not isinstance(device, device_type):
        device = device_type(device)
    return ToOptions(device, known["dtype"], known["non_blocking"], known.get("memory_format"))


def _refuse(given: tuple[Any, ...], named: dict[str, Any]) -> NoReturn:
    kinds = [_kind(each) for each in given]
    kinds += [f"{name}={_kind(each)}" for name, each in named.items() if each is not None]
    raise TypeError(
        f"to() received an invalid combination of arguments - got ({', '.join(kinds)}), but "
        f"expected one of:{WAYS}"
    )


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"torch.{name}" if isinstance(value, device_type | dtypes.dtype) else name
