"""`torch.nn.attention`: chooses how attention is computed. The CPU has two ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.state import settings

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """The backends of scaled dot product attention, as PyTorch names them."""

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
    """Compute attention inside the block with one of these backends.

    MATH computes it in several operations, all others in one.
    """
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
