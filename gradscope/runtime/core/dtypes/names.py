"""What errors call the type of a value, the kind of a tensor and the dtype of its elements."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.dtypes import dtypes

RUNTIME: Final = "gradscope.runtime"
CORE: Final = f"{RUNTIME}.core"
IMMUTABLE: Final = 1 << 8  # CPython's flag of types that are written in C
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
"""What PyTorch calls the types that it has in C."""
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
"""Where PyTorch has what stands elsewhere here; the first that fits."""
ELSEWHERE: Final = {**NATIVE, f"{CORE}.tensors.tensor.tensor.Tensor": "torch.Tensor"}


def typename(obj: Any) -> str:
    """Where a type or a function stands and its name; of any other object, those of its type.

    A tensor's is its kind: torch.FloatTensor.
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
    """What messages from C call the type of an object: where it stands only types in C tell."""
    cls = type(obj)
    full = _full_name(cls)
    return NATIVE.get(full) or (full if cls.__flags__ & IMMUTABLE else cls.__name__)


def _full_name(named: Any) -> str:
    home = named.__module__ or "builtins"
    return str(named.__qualname__ if home == "builtins" else f"{home}.{named.__qualname__}")


def scalar_name(array: np.ndarray[Any, Any]) -> str:
    """What most of PyTorch's messages call the dtype of an array: Float."""
    return dtypes.from_numpy(array.dtype).scalar_name


def type_name(array: np.ndarray[Any, Any]) -> str:
    """The legacy name of a tensor type: torch.FloatTensor."""
    return f"torch.{scalar_name(array)}Tensor"


def error_name(array: np.ndarray[Any, Any]) -> str:
    """What some of PyTorch's messages call a tensor type; not all have a legacy name."""
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
    """What some of PyTorch's messages call a dtype: long int."""
    name = dtypes.from_numpy(array.dtype).name
    return C_NAMES.get(name, name)


def c_type(array: np.ndarray[Any, Any]) -> str:
    """What those about single numbers call it: int64_t."""
    name = dtypes.from_numpy(array.dtype).name
    return f"{name}_t" if "int" in name and name != "int32" else C_NAMES.get(name, name)
