"""`torch.autograd`: the engine and everything around it, laid out part by part as PyTorch's.

Tensors are built on parts of this package and other parts are built on tensors, so the names users
know are looked up when they are first asked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_HOMES = {
    "_force_original_view_tracking": "grad_mode",
    "_unsafe_preserve_version_counter": "grad_mode",
    "BackwardCFunction": "function",
    "Function": "function",
    "FunctionCtx": "function",
    "InplaceFunction": "function",
    "NestedIOFunction": "function",
    "Variable": "variable",
    "backward": "roots",
    "detect_anomaly": "anomaly_mode",
    "enable_grad": "grad_mode",
    "function": "",
    "forward_ad": "",
    "functional": "",
    "grad": "roots",
    "grad_mode": "",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
    "graph": "",
    "inference_mode": "grad_mode",
    "is_grad_enabled": "grad_mode",
    "is_multithreading_enabled": "grad_mode",
    "no_grad": "grad_mode",
    "profiler": "",
    "set_detect_anomaly": "anomaly_mode",
    "set_grad_enabled": "grad_mode",
    "set_multithreading_enabled": "grad_mode",
    "variable": "",
}

__all__ = sorted(name for name in _HOMES if not name.startswith("_"))  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        from gradscope.runtime.missing import no_module_attribute

        raise no_module_attribute("torch.autograd", name, __dir__())
    found = import_module(f"{__name__}.{home or name}")
    value = getattr(found, name) if home else found
    globals()[name] = value
    return value


class _Package(ModuleType):
    """`autograd.gradcheck` is the function, also after its module of that name was imported."""

    @property
    def gradcheck(self) -> Any:
        return import_module(f"{__name__}.gradcheck").gradcheck

    @gradcheck.setter
    def gradcheck(self, module: ModuleType) -> None:
        """Importing a module sets it here."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted(_HOMES)
