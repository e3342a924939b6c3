"""`torch.cuda`: reports that there is no GPU."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from gradscope.runtime.core.devices.devices import NO_CUDA
from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.state.warned import warn


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def is_tf32_supported() -> bool:
    return False


def get_arch_list() -> list[str]:
    return []


def get_rng_state_all() -> list[Any]:
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Refuse states: there are no GPUs."""
    if len(new_states):
        raise AssertionError(NO_CUDA)


# Seeding and emptying do nothing, which is no error in PyTorch either ----------------------------


def manual_seed(seed: int) -> None:
    """Do nothing: there is no GPU, as in PyTorch without one."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: there is no GPU, as in PyTorch without one."""


def seed() -> None:
    """Do nothing: there is no GPU, as in PyTorch without one."""


def seed_all() -> None:
    """Do nothing: there is no GPU, as in PyTorch without one."""


def empty_cache() -> None:
    """Do nothing: there is no GPU, as in PyTorch without one."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: no memory was used."""


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def memory_allocated(device: Any = None) -> int:
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_cached(device: Any = None) -> int:
    warn(
        "`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`", FutureWarning
    )
    return 0


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    return OrderedDict()


# Contexts of missing devices, without effect -----------------------------------------------------


class device:  # noqa: N801  (PyTorch's name)
    """Would choose a CUDA device inside the block; does nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = getattr(device, "index", device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


class device_of(device):  # noqa: N801  (PyTorch's name)
    """Would choose the CUDA device of a tensor inside the block; does nothing."""


class StreamContext:
    """Would choose a CUDA stream inside the block; does nothing."""

    def __init__(self, stream: Any) -> None:
        if stream is not None:
            raise AssertionError(NO_CUDA)
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)


# Classes that need a device, and raise an error --------------------------------------------------


class _NoDevice:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        raise RuntimeError(
            f"torch.cuda.{name} requires CUDA support"
            if name == "Stream"
            else f"Tried to instantiate dummy base class {name}"
        )


class Stream(_NoDevice):
    """A CUDA stream. Raises an error: there is no GPU."""


class Event(_NoDevice):
    """A CUDA event. Raises an error: there is no GPU."""


class CUDAGraph(_NoDevice):
    """A CUDA graph. Raises an error: there is no GPU."""


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(NO_CUDA)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


_NEED_A_DEVICE = (
    "can_device_access_peer", "current_blas_handle", "current_device", "current_stream",
    "default_stream", "get_device_capability", "get_device_name", "get_device_properties",
    "get_rng_state", "init", "initial_seed", "ipc_collect", "mem_get_info", "set_device",
    "set_per_process_memory_fraction", "set_rng_state", "set_stream", "synchronize",
)  # fmt: skip
globals().update({name: _refusal(name) for name in _NEED_A_DEVICE})


class OutOfMemoryError(RuntimeError):
    """PyTorch's error for a full GPU. Never raised here."""


def __getattr__(name: str) -> Any:
    if name == "amp":
        return import_module(f"{__name__}.amp")
    raise missing.no_module_attribute("torch.cuda", name, [*globals(), "amp"])
