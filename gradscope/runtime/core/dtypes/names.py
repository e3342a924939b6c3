"""Names of types, tensor types and dtypes in PyTorch's errors."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.dtypes import dtypes

RUNTIME: Final = "gradscope.runtime"
CORE: Final = f"{RUNTIME}.core"
IMMUTABLE: Final = 1 << 8  # CPython's flag of types written in C
NATIVE: Final = {
    f"{CORE}.devices.devices.device": "torch.device",
    f"{CORE}.dtypes.dtypes.dtype": "torch.dtype",
    f"{CORE}.dtypes.memory_formats.memory_format": "torch.memory_format",
    f"{CORE}.dtypes.limits.finfo": "torch.finfo",
    f"{CORE}.dtypes.limits.iinfo": "torch.iinfo",
    f"{CORE}.tensors.default_generator.Generator": "torch._C.Generator",
    f"{CORE}.state.settings.layout": "torch.layout",
    f"{CORE}.tensors.size.Size": "torch.Size",
}
"""PyTorch's names of types that it implements in C."""
HOMES: Final = {
    f"{CORE}.autograd.custom.": "torch.autograd.function.",
    f"{CORE}.autograd.hooks.": "torch.autograd.graph.",
    f"{CORE}.autograd.modes.anomaly_mode.": "torch.autograd.anomaly_mode.",
    f"{CORE}.autograd.modes.grad_mode.": "torch.autograd.grad_mode.",
    f"{CORE}.tensors.default_generator.": "torch.random.",
    f"{RUNTIME}.nn.modules.module_parts.": "torch.nn.modules.module.",
    f"{RUNTIME}.optim.schedules.": "torch.optim.lr_scheduler.",
    f"{CORE}.": "torch.",
}
"""PyTorch's modules for objects that are defined elsewhere here; the first match counts."""
ELSEWHERE: Final = {**NATIVE, f"{CORE}.tensors.tensor.tensor.Tensor": "torch.Tensor"}


def typename(obj: Any) -> str:
    """The qualified name of a type or function; of any other object, that of its type.

    That of a tensor is its kind: torch.FloatTensor.
    """
    if hasattr(type(obj), "_array"):
        return type_name(obj._array)
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    full = _full_name(named)
    if full in ELSEWHERE:
        return ELSEWHERE[full]
    for home, public in HOMES.items():
        if full.startswith(home):
            return public + str(named.__qualname__)
    return re.sub(rf"^{RUNTIME}\b", "torch", full)


def tp_name(obj: Any) -> str:
    """The name of an object's type in errors from C, qualified only for types in C."""
    cls = type(obj)
    full = _full_name(cls)
    return NATIVE.get(full) or (full if cls.__flags__ & IMMUTABLE else cls.__name__)


def _full_name(named: Any) -> str:
    home = named.__module__ or "builtins"
    return str(named.__qualname__ if home == "builtins" else f"{home}.{named.__qualname__}")


def scalar_name(array: np.ndarray[Any, Any]) -> str:
    """The name of the array's dtype in most of PyTorch's errors: Float."""
    return dtypes.from_numpy(array.dtype).scalar_name


def type_name(array: np.ndarray[Any, Any]) -> str:
    """The legacy name of a tensor type: torch.FloatTensor."""
    return f"torch.{scalar_name(array)}Tensor"


def error_name(array: np.ndarray[Any, Any]) -> str:
    """The name of a tensor type in some of PyTorch's errors; not all have a legacy name."""
    kind = dtypes.from_numpy(array.dtype)
    if kind.is_complex or kind is dtypes.bfloat16:
        return f"CPU{kind.scalar_name}Type"
    return type_name(array)


C_NAMES: Final = {
    "float64": "double",
    "float32": "float",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint64": "long unsigned int",
    "uint32": "unsigned int",
    "uint16": "short unsigned int",
    "uint8": "unsigned char",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def c_name(array: np.ndarray[Any, Any]) -> str:
    """The name of a dtype in some of PyTorch's errors: long int."""
    name = dtypes.from_numpy(array.dtype).name
    return C_NAMES.get(name, name)


def c_type(array: np.ndarray[Any, Any]) -> str:
    """The name of a dtype in errors about single numbers: int64_t."""
    name = dtypes.from_numpy(array.dtype).name
    return f"{name}_t" if "int" in name and name != "int32" else C_NAMES.get(name, name)
