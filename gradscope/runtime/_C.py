"""`torch._C`: of PyTorch's inside, what programs reach for."""

from __future__ import annotations

from typing import Any

from gradscope.runtime import missing
from gradscope.runtime.override_protocol import (
    all_disabled as DisableTorchFunction,
    disabled as DisableTorchFunctionSubclass,
    leave_alone as _disabled_torch_function_impl,
)
from gradscope.runtime.state import local

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "_disabled_torch_function_impl",
    "_is_torch_function_enabled",
    "_is_torch_function_mode_enabled",
    "_len_torch_dispatch_stack",
    "_len_torch_function_stack",
]


def _is_torch_function_enabled() -> bool:
    return not local.state.overrides_disabled


def _is_torch_function_mode_enabled() -> bool:
    return bool(local.state.function_modes)


def _len_torch_function_stack() -> int:
    return len(local.state.function_modes)


def _len_torch_dispatch_stack() -> int:
    return len(local.state.dispatch_modes)


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch._C", name, __all__)
