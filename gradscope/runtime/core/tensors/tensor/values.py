"""Conversions of a tensor to Python's numbers, lists and booleans, and to NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradscope.runtime.core.devices.devices import CPU
from gradscope.runtime.core.errors.engine.devices import numpy_on_device
from gradscope.runtime.core.errors.engine.leaves import number_of_history, numpy_with_grad
from gradscope.runtime.core.probe import lend
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.tensors.memory.bits import BitsCounter, bits_of
from gradscope.runtime.core.tensors.placement import read


class Values:
    """The part of a tensor that converts its values."""

    __slots__ = ()

    _array: np.ndarray[Any, Any]
    device: Any
    dim: Any
    dtype: Any
    requires_grad: Any
    _versions: Any
    unbind: Any

    def item(self) -> Any:
        if self._array.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._array.size} elements cannot be converted to Scalar"
            )
        if ThreadState.devices:
            if self.device.type == "meta":
                raise RuntimeError("Tensor.item() cannot be called on meta tensors")
            read(self)
        value = self._array.reshape(-1)[0].item()
        return float(value) if self._array.dtype.kind == "V" else value

    def tolist(self) -> Any:
        if ThreadState.devices:
            read(self)
        array = self._array
        return (array.astype(np.float32) if array.dtype.kind == "V" else array).tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """The tensor's own array, which shares memory."""
        if ThreadState.devices and force:
            read(self)
        if not force and self.device is not CPU:
            raise numpy_on_device(self.device, self)
        if not force and self.requires_grad and local.state.grad_enabled:
            raise numpy_with_grad(self)
        if isinstance(self._versions, BitsCounter):
            return _with_bits(self, force=force)
        if self._array.dtype.kind == "V":
            raise TypeError(f"Got unsupported ScalarType {self.dtype.scalar_name}")
        lend(self._array)
        return self._array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    __array_priority__ = 1000

    def __bool__(self) -> bool:
        if self._array.size != 1:
            what = "no values" if not self._array.size else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
        return bool(self.item())

    def is_nonzero(self) -> bool:
        return bool(self)

    def __float__(self) -> float:
        return float(_only(warned_of_history(self)))

    def __int__(self) -> int:
        return int(_only(self))

    def __index__(self) -> int:
        if self._array.size != 1 or self._array.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(warned_of_history(self).item())

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if self.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any().item())

    def __format__(self, spec: str) -> str:
        if self._array.ndim == 0 and self._array.dtype.kind != "c":
            return self.item().__format__(spec)
        return object.__format__(self, spec) if spec else repr(self)


def _with_bits(tensor: Any, *, force: bool) -> Any:
    """A copy of a tensor with conj or neg bit, if `force` is set."""
    if force:
        return tensor._array.copy()
    name, bit = ("conj", "conjugate") if bits_of(tensor).conj else ("neg", "negative")
    raise RuntimeError(
        f"Can't call numpy() on Tensor that has {bit} bit set. Use "
        f"tensor.resolve_{name}().numpy() instead."
    )


def _only(tensor: Any) -> Any:
    if tensor._array.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return tensor.item()


def warned_of_history(value: Any) -> Any:
    """The value, with a warning if it is a tensor that requires grad."""
    if isinstance(value, Values) and value.requires_grad and local.state.grad_enabled:
        number_of_history(value)
    return value
