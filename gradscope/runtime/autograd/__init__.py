"""`torch.autograd`: PyTorch's names for the engine and everything around it.

Tensors are built on the engine, and parts of this package on tensors, so names are resolved when
they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_CORE = "gradscope.runtime.core.autograd"
_BELOW = "gradscope.runtime._C._autograd"
_HOMES = {
    "SavedTensor": _BELOW,
    "_calculate_shape": f"{_CORE}.engine.backward",
    "_force_original_view_tracking": f"{__name__}.grad_mode",
    "_functions": "",
    "_pop_saved_tensors_default_hooks": _BELOW,
    "_push_saved_tensors_default_hooks": _BELOW,
    "_unsafe_preserve_version_counter": f"{__name__}.grad_mode",
    "BackwardCFunction": f"{__name__}.function",
    "Function": f"{__name__}.function",
    "FunctionCtx": f"{__name__}.function",
    "InplaceFunction": f"{__name__}.function",
    "NestedIOFunction": f"{__name__}.function",
    "Variable": f"{__name__}.variable",
    "backward": f"{_CORE}.engine.backward",
    "detect_anomaly": f"{__name__}.anomaly_mode",
    "enable_grad": f"{__name__}.grad_mode",
    "anomaly_mode": "",
    "function": "",
    "forward_ad": "",
    "functional": "",
    "grad": f"{_CORE}.engine.backward",
    "grad_mode": "",
    "gradcheck": f"{__name__}.gradcheck",
    "gradgradcheck": f"{__name__}.gradcheck",
    "graph": "",
    "inference_mode": f"{__name__}.grad_mode",
    "is_grad_enabled": f"{_CORE}.modes.grad_mode",
    "is_multithreading_enabled": f"{_CORE}.modes.grad_mode",
    "is_view_replay_enabled": f"{_CORE}.modes.grad_mode",
    "no_grad": f"{__name__}.grad_mode",
    "profiler": "",
    "set_detect_anomaly": f"{__name__}.anomaly_mode",
    "set_grad_enabled": f"{__name__}.grad_mode",
    "set_multithreading_enabled": f"{__name__}.grad_mode",
    "variable": "",
}

__all__ = sorted(name for name in _HOMES if not name.startswith("_"))  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if name == "torch":  # some programs take it from here
        return import_module("gradscope.runtime")
    if home is None:
        from gradscope.runtime.core.errors.missing import no_module_attribute

        raise no_module_attribute("torch.autograd", name, __dir__())
    found = import_module(home or f"{__name__}.{name}")
    value = getattr(found, name) if home else found
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps `autograd.gradcheck` the function when the module of that name is imported."""

    @property
    def gradcheck(self) -> Any:
        return import_module(f"{__name__}.gradcheck").gradcheck

    @gradcheck.setter
    def gradcheck(self, module: ModuleType) -> None:
        """Ignore the assignment by the import of the module."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted(_HOMES)
