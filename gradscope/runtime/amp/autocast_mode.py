"""`torch.autocast`: a block in which operations choose the dtype of their computation."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np

from gradscope.runtime.amp import casting
from gradscope.runtime.core.devices.devices import KNOWN
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

AVAILABLE = ("cpu", "cuda", "xpu", "mps", "hpu", "xla", "ipu", "maia", "mtia", "privateuseone")
HALVES = (dtypes.bfloat16, dtypes.float16)


class _Local(threading.local):
    def __init__(self) -> None:
        self.settings = casting.Settings()


_local = _Local()


def is_autocast_available(device_type: str) -> bool:
    """Whether PyTorch supports autocast for this device type."""
    return device_type in AVAILABLE


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    return _local.settings.enabled.get(device_type, False)


def set_autocast_enabled(*given: Any) -> None:
    device_type, enabled = given if len(given) == 2 else ("cuda", given[0])
    settings = _local.settings
    settings.enabled[device_type] = bool(enabled)
    if device_type == "cpu":
        if enabled:
            casting.put_up()
        settings.tell()


def get_autocast_dtype(device_type: str) -> Any:
    """The lower precision of this device type."""
    return _local.settings.dtypes.get(device_type, dtypes.bfloat16)


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    _local.settings.dtypes[device_type] = dtype


def is_autocast_cache_enabled() -> bool:
    return _local.settings.caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    _local.settings.caches = enabled


def clear_autocast_cache() -> None:
    _local.settings.kept.clear()


def autocast_increment_nesting() -> int:
    _local.settings.nesting += 1
    return _local.settings.nesting


def autocast_decrement_nesting() -> int:
    _local.settings.nesting -= 1
    return _local.settings.nesting


def is_autocast_cpu_enabled() -> bool:
    return is_autocast_enabled("cpu")


def get_autocast_gpu_dtype() -> Any:
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> Any:
    return get_autocast_dtype("cpu")


def autocast_decorator(autocast_instance: Any, func: Callable[..., Any]) -> Any:
    """The function, with each call in an autocast block."""

    @functools.wraps(func)
    def decorate_autocast(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast


class autocast:  # noqa: N801
    """Context manager or decorator: operations inside cast their inputs."""

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in KNOWN.split(", "):
            raise RuntimeError(
                f"Expected one of {KNOWN} device type at start of device string: {device_type}"
            )
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = (
            is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        if enabled and device_type == "cuda":
            warnings.warn(
                "CUDA is not available or torch_xla is imported. Disabling autocast.",
                stacklevel=2,
            )
            enabled = False
        elif enabled and self.fast_dtype not in HALVES:
            names = ", ".join(map(str, HALVES))
            device = device_type.upper()
            warnings.warn(
                f"In {device} autocast, but the target dtype is not supported. Disabling "
                f"autocast.\n{device} Autocast only supports dtypes of {names} currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled

    def __enter__(self) -> Self:
        self.prev_cache_enabled = is_autocast_cache_enabled()
        self.prev = is_autocast_enabled(self.device)
        self.prev_fastdtype = get_autocast_dtype(self.device)
        set_autocast_enabled(self.device, self._enabled)
        set_autocast_dtype(self.device, self.fast_dtype)
        autocast_increment_nesting()
        set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, *raised: object) -> None:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        set_autocast_enabled(self.device, self.prev)
        set_autocast_dtype(self.device, self.prev_fastdtype)
        set_autocast_cache_enabled(self.prev_cache_enabled)

    def __call__(self, func: Any) -> Any:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. "
                "Did you mean to use autocast as a context manager? For example:\n"
                "    with torch.autocast(device_type=...):\n"
                "        output = model(input)"
            )
        return autocast_decorator(self, func)


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """All floating point tensors in `value`, cast to another dtype."""
    if isinstance(value, Tensor):
        fits = value.is_floating_point() and value.device.type == device_type
        return value.to(dtype) if fits and value.dtype is not dtypes.float64 else value
    if isinstance(value, str | bytes | np.ndarray):
        return value
    if isinstance(value, Mapping):
        cast = functools.partial(_cast, device_type=device_type, dtype=dtype)
        return {cast(key): cast(each) for key, each in value.items()}
    if isinstance(value, Iterable):
        made = (_cast(each, device_type, dtype) for each in value)
        return type(value)(made) if isinstance(value, list | tuple) else made
    return value


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorate a forward: save autocast for backward, or run without it on cast inputs."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        enabled = is_autocast_enabled(device_type)
        args[0]._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            cast = functools.partial(_cast, device_type=device_type, dtype=cast_inputs)
            return fwd(*cast(args), **cast(kwargs))

    return decorate_fwd


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate a custom function's backward: run with the autocast state of its forward."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        before = args[0]
        used, dtype = before._fwd_used_autocast, before._dtype
        with autocast(device_type=device_type, enabled=used, dtype=dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
