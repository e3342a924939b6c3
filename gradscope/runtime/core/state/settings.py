"""Global settings. Most are accepted and have no effect here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, final

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.kernels.threads import blas_threads, set_blas_threads
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.warned import warn_once


@final
class layout:  # noqa: N801 -- PyTorch's name
    """The memory layout of a tensor; always strided here."""

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return layout_named, (repr(self),)


strided: Final = layout("strided")


def layout_named(name: str) -> layout:
    """The layout with this name. There is only one."""
    if name != repr(strided):
        raise RuntimeError(f"there is no layout {name} here: all tensors are strided")
    return strided


ATTENTION: Final = frozenset({"flash", "math", "mem_efficient", "cudnn", "overrideable"})
"""PyTorch's attention backends. The CPU has the first two."""


@dataclass
class _Settings:
    """Values set by the program."""

    threads: int | None = None  # None: BLAS's own choice
    interop_threads: int = 1
    precision: str = "highest"
    deterministic: bool = False
    fills_memory: bool = True
    warn_only: bool = False
    attention: frozenset[str] = ATTENTION


_settings = _Settings()


@cache
def _by_itself() -> int:
    """BLAS's own number of threads. Must be read before it is changed."""
    return blas_threads()


def set_num_threads(count: int) -> None:
    """Set the number of threads of matrix products and of compiled kernels."""
    _check_count("set_num_threads", count)
    put_num_threads(count)


def chosen_threads() -> int | None:
    """The number of threads set by the program; None if it set none."""
    return _settings.threads


def put_num_threads(count: int | None) -> None:
    """Use this number of threads; None: BLAS's own choice."""
    if count != _settings.threads:
        own = _by_itself()
        set_blas_threads(own if count is None else count)
        upward.set_kernel_threads(count)
        _settings.threads = count


def get_num_threads() -> int:
    return blas_threads() if _settings.threads is None else _settings.threads


def _check_count(name: str, count: Any) -> None:
    if not isinstance(count, int) or isinstance(count, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError(f"{name} expects a positive integer")


def set_num_interop_threads(count: int) -> None:
    _check_count("set_num_interop_threads", count)
    _settings.interop_threads = count


def get_num_interop_threads() -> int:
    return _settings.interop_threads


def set_float32_matmul_precision(precision: str) -> None:
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"Unknown float32 matmul precision: {precision}")
    _settings.precision = precision


def get_float32_matmul_precision() -> str:
    return _settings.precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Record the choice. Every operation here is deterministic anyway."""
    if not isinstance(mode, bool):
        raise TypeError(
            "_set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not "
            f"{type(mode).__name__}"
        )
    _settings.deterministic, _settings.warn_only = mode, warn_only


def fill_memory(mode: bool) -> None:
    """Choose whether `empty` fills its memory while deterministic algorithms are on."""
    _settings.fills_memory = mode


def fills_memory() -> bool:
    return _settings.fills_memory


def are_deterministic_algorithms_enabled() -> bool:
    return _settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return _settings.warn_only


_DEBUG_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same setting as a number or a word."""
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str) and debug_mode not in _DEBUG_MODES:
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
            f"{debug_mode}"
        )
    number = _DEBUG_MODES.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if number not in range(3):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {number}")
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


def get_deterministic_debug_mode() -> int:
    return int(_settings.deterministic) * (1 if _settings.warn_only else 2)


def attention_allows(way: str) -> bool:
    """Whether attention may use this backend."""
    return way in _settings.attention


def allow_attention(way: str, enabled: bool) -> None:
    """Allow or forbid an attention backend."""
    if not isinstance(enabled, bool):
        raise RuntimeError(f"set_sdp_use_{way} expects a bool, but got {type(enabled).__name__}")
    others = _settings.attention - {way}
    _settings.attention = others | {way} if enabled else others


@contextmanager
def attention_by(ways: Iterable[str]) -> Iterator[None]:
    """Allow only these attention backends inside the block."""
    before = _settings.attention
    _settings.attention = frozenset(ways)
    try:
        yield
    finally:
        _settings.attention = before


def set_flush_denormal(mode: bool) -> bool:
    """Returns False: flushing denormals is not supported."""
    return False


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by tensor type. Prefer `set_default_dtype`."""
    name = t if isinstance(t, str) else repr(t).partition("'")[2].partition("'")[0]
    kind = next((k for k in dtypes.ALL if name == f"torch.{k.scalar_name}Tensor"), None)
    if kind is None and name.startswith("torch.cuda."):
        raise TypeError(f"type {name} not available. Torch not compiled with CUDA enabled.")
    if kind is None:
        raise ValueError(f"invalid type: '{name}'")
    warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives."
    )
    dtypes.set_default_dtype(kind)
