"""Conversion to other dtypes and devices, and new tensors like an old one."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.autograd.forward.forward_grad import fw_grad
from gradscope.runtime.core.calls.declare import BY_HAND, INTERNAL, LINEAR, family, op
from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.devices.devices import stream_of
from gradscope.runtime.core.dtypes import dtypes, memory_formats as formats
from gradscope.runtime.core.rows.offered import METHODS, method
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.tensors.dims import sizes
from gradscope.runtime.core.tensors.making import factories, more_factories as creation
from gradscope.runtime.core.tensors.making.legacy import legacy_new
from gradscope.runtime.core.tensors.making.reals import fitting
from gradscope.runtime.core.tensors.placement import place, read
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def _converted(self, dtype, memory_format=None):
    return formats.copied(fitting(self, dtype), memory_format).astype(dtype, order="K", copy=False)


# The engine casts a gradient to the dtype of its tensor.
_to_copy = op("ToCopyBackward0", _converted, LINEAR, BY_HAND, INTERNAL, self=lambda grad: grad)
_to_copy__whole = op(None, _converted, INTERNAL)
family(globals())


@layout_only
def converted(tensor, dtype, device=None, *, copy=False, memory_format=None):
    """The tensor in another dtype or device; itself if nothing changes and no copy is requested."""
    kind = dtype.numpy
    if device is not None and device != tensor.device:
        return _moved(tensor, dtype, device, memory_format)
    moved = memory_format not in (None, formats.preserve_format)
    if moved and not formats.is_ordered(tensor._array, memory_format):
        copy = True
    if not copy and tensor._array.dtype == kind:
        return tensor
    if dtype.is_floating_point or dtype.is_complex:
        return _to_copy(tensor, kind, memory_format)
    return _to_copy__whole(tensor, kind, memory_format)


def _moved(tensor, dtype, device, memory_format):
    """A copy on another device."""
    read(tensor)
    if device is not devices.CPU:
        stream_of(device).launch()
    made = converted(tensor, dtype, copy=True, memory_format=memory_format)
    tangent = fw_grad(made)
    for fresh in (made,) if tangent is None else (made, tangent):
        place(fresh, device)
    if made._edge is not None:
        made._edge[0].extra().device = None if device is devices.CPU else device
    return made


@method
def to(self, *wanted, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    """Convert to this dtype, device, or those of another tensor."""
    rest = list(wanted)
    if rest:
        first = rest.pop(0)
        if isinstance(first, Tensor):
            dtype, device = first.dtype, first.device
        elif isinstance(first, dtypes.dtype):
            dtype = first
        else:
            device = first
            if rest and (rest[0] is None or isinstance(rest[0], dtypes.dtype)):
                dtype = rest.pop(0)
        if len(rest) > 1:
            copy = rest[1]
    where = None if device is None else available(device)
    return converted(self, dtype or self.dtype, where, copy=copy, memory_format=memory_format)


def available(device: Any) -> devices.device:
    """The device of this name."""
    return devices.check(device)


def _cast(name, dtype):
    def cast(self, memory_format=None):
        return converted(self, dtype, memory_format=memory_format)

    cast.__name__ = name
    METHODS[name] = cast


for _name, _dtype in {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "long": dtypes.int64,
    "int": dtypes.int32,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}.items():
    _cast(_name, _dtype)


@method
def type_as(self, other):
    return converted(self, other.dtype, other.device)


@method
def cpu(self, memory_format=None):
    return converted(self, self.dtype, devices.CPU, memory_format=memory_format)


@method
def cuda(self, device=None, non_blocking=False, memory_format=None):
    raise AssertionError("Torch not compiled with CUDA enabled")


@method
def is_pinned(self, device=None):
    return False


@method
def get_device(self):
    number = self.device.index
    return -1 if number is None else number


@method
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A copy of the data in this tensor's dtype."""
    return factories.tensor(
        data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad
    )


def _new(name, maker):
    def new(self, *size, dtype=None, device=None, requires_grad=False, layout=None, **_):
        return maker(
            sizes(size),
            dtype=dtype or self.dtype,
            device=device or self.device,
            requires_grad=requires_grad,
        )

    new.__name__ = name
    METHODS[name] = new


_new("new_zeros", factories.zeros)
_new("new_ones", factories.ones)
_new("new_empty", factories.empty)


@method
def new_empty_strided(
    self, size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, **_
):
    return creation.empty_strided(
        size,
        stride,
        dtype=dtype or self.dtype,
        device=device or self.device,
        requires_grad=requires_grad,
    )


@method
def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None):
    return factories.full(
        size,
        fill_value,
        dtype=dtype or self.dtype,
        device=device or self.device,
        requires_grad=requires_grad,
    )


@method
def new(self, *given):
    """The legacy constructor, with this tensor's dtype."""
    return legacy_new(Tensor, given, {}, self.dtype).to(self.device, self.dtype)
