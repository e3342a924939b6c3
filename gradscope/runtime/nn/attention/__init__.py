"""`torch.nn.attention`: in which ways attention may be computed; on the CPU there are two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.state import settings

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """The kernels PyTorch has."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    __str__ = __format__ = lambda self, _="": f"SDPBackend.{self.name}"


_WAYS = {
    SDPBackend.MATH: "math",
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
    SDPBackend.OVERRIDEABLE: "overrideable",
}


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[Any]:
    """Inside, attention is computed by one of these: in one operation, or (MATH) in several."""
    asked = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(asked, list):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    with settings.attention_by(_WAYS[each] for each in asked if each in _WAYS):
        yield {}


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.nn.attention", name, __all__)
