"""Switches scripts set at their start, most of which have nothing to switch here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

from gradscope.runtime import devices


@final
class layout:  # noqa: N801 -- PyTorch's name
    """How a tensor's elements are stored; here always strided."""

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return layout_named, (repr(self),)


strided: Final = layout("strided")


def layout_named(name: str) -> layout:
    """The layout with this name: there is one."""
    if name != repr(strided):
        raise RuntimeError(f"there is no layout {name} here: all tensors are strided")
    return strided


@dataclass
class _Settings:
    """What the program asked for."""

    threads: int = 1
    interop_threads: int = 1
    precision: str = "highest"
    deterministic: bool = False


_settings = _Settings()


def set_num_threads(count: int) -> None:
    """Note how many threads the program asks for; operations here run in one."""
    if count <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _settings.threads = count


def get_num_threads() -> int:
    return _settings.threads


def set_num_interop_threads(count: int) -> None:
    if count <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
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
    """Every operation here is deterministic; the wish is only noted."""
    _settings.deterministic = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    return _settings.deterministic


def set_default_device(device: Any) -> None:
    """Let factories make their tensors there; None: on the CPU."""
    devices.set_default(device)


def get_default_device() -> devices.device:
    return devices.default()


def compile(model: Any = None, **_: Any) -> Any:
    """The model itself: a compiled one could not be watched."""
    if model is None:
        return _unchanged
    return model


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
