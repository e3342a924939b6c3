"""CUDA is not available: only the switches of attention have an effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gradscope.runtime.core.state import settings
from gradscope.runtime.core.state.warned import warn


@dataclass
class _Matmul:
    """Options of CUDA's matrix products."""

    allow_tf32: bool = False
    allow_fp16_reduced_precision_reduction: bool = True


matmul = _Matmul()


def is_built() -> bool:
    return False


def is_flash_attention_available() -> bool:
    return False


def flash_sdp_enabled() -> bool:
    """Whether attention may use the single operation, the CPU's only such kernel."""
    return settings.attention_allows("flash")


def enable_flash_sdp(enabled: bool) -> None:
    settings.allow_attention("flash", enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may use products and a softmax."""
    return settings.attention_allows("math")


def enable_math_sdp(enabled: bool) -> None:
    settings.allow_attention("math", enabled)


def mem_efficient_sdp_enabled() -> bool:
    return settings.attention_allows("mem_efficient")


def enable_mem_efficient_sdp(enabled: bool) -> None:
    settings.allow_attention("mem_efficient", enabled)


def cudnn_sdp_enabled() -> bool:
    return settings.attention_allows("cudnn")


def enable_cudnn_sdp(enabled: bool) -> None:
    settings.allow_attention("cudnn", enabled)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[Any]:
    """Allow only these attention backends inside the block."""
    warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager "
        "will be removed. Please see `torch.nn.attention.sdpa_kernel()` for the new context "
        "manager, with updated signature.",
        FutureWarning,
    )
    asked = {
        "flash": enable_flash,
        "math": enable_math,
        "mem_efficient": enable_mem_efficient,
        "cudnn": enable_cudnn,
    }
    with settings.attention_by({name for name, wanted in asked.items() if wanted}):
        yield {}
