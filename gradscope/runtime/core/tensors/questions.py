"""Properties of tensors, and type promotion: `torch.is_tensor`, `torch.result_type`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.tensors.memory.storage import Storage
from gradscope.runtime.core.tensors.memory.typed_storage import TypedStorage
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def is_tensor(obj: Any) -> bool:
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    return input.is_complex()


def is_inference(input: Tensor) -> bool:
    if not isinstance(input, Tensor):
        raise TypeError(
            "is_inference(): argument 'input' (position 1) must be Tensor, not "
            f"{type(input).__name__}"
        )
    return input.is_inference()


def numel(input: Tensor) -> int:
    return input.numel()


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element of a tensor is not zero."""
    if input.numel() != 1:
        many = "no values" if not input.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
    return bool(input)


def is_storage(obj: Any) -> bool:
    return isinstance(obj, Storage | TypedStorage)


def is_signed(input: Tensor) -> bool:
    return bool(input.dtype.is_signed)


def is_conj(input: Tensor) -> bool:
    return bool(input.is_conj())


def is_neg(input: Tensor) -> bool:
    return bool(input.is_neg())


def is_same_size(input: Tensor, other: Tensor) -> bool:
    return bool(input.shape == other.shape)


def get_device(input: Tensor) -> int:
    """The index of a tensor's device; -1 for the CPU."""
    return input.get_device()


def get_device_module(device: Any = None) -> Any:
    """The module of a device type: `torch.cpu`, `torch.cuda`, …."""
    kind = devices.device(device).type if device is not None else "cpu"
    return import_module(f"gradscope.runtime.{kind}")


def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype of an operation on both."""
    return dtypes.result_type(_operand(tensor1), _operand(tensor2))


def _operand(value: Any) -> tuple[dtypes.dtype, int]:
    if isinstance(value, Tensor):
        return value.dtype, dtypes.DIMENSIONED if value.dim() else dtypes.ZERO_DIM
    return dtypes.number_dtype(value), dtypes.NUMBER
