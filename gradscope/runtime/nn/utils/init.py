"""skip_init: modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any

from gradscope.runtime.core.tensors.default_generator import fork_rng
from gradscope.runtime.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Create a module without initializing its parameters. No random values are drawn."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with fork_rng():
        return module_cls(*args, **kwargs)
