"""There is no GPU here; scripts that ask get an honest answer."""

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
    """Nothing is there whose state could be set, as long as there are none."""
    if len(new_states):
        raise AssertionError(NO_CUDA)


# Nothing is there to be seeded or emptied, which is no error in PyTorch either --------------------


def manual_seed(seed: int) -> None:
    """Nothing is there to be seeded, which is no error in PyTorch either."""


def manual_seed_all(seed: int) -> None:
    """Nothing is there to be seeded, which is no error in PyTorch either."""


def seed() -> None:
    """Nothing is there to be seeded, which is no error in PyTorch either."""


def seed_all() -> None:
    """Nothing is there to be seeded, which is no error in PyTorch either."""


def empty_cache() -> None:
    """Nothing is there to be emptied, which is no error in PyTorch either."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing was ever used."""


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


# Blocks on a device that is not there: they do nothing --------------------------------------------


class device:  # noqa: N801  (PyTorch's name)
    """Inside, CUDA would use this device."""

    def __init__(self, device: Any) -> None:
        self.idx = getattr(device, "index", device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


class device_of(device):  # noqa: N801  (PyTorch's name)
    """Inside, CUDA would use the device this tensor is on."""


class StreamContext:
    """Inside, CUDA would use this stream."""

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


# What needs a device, and says that there is none -------------------------------------------------


class _NoDevice:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        raise RuntimeError(
            f"torch.cuda.{name} requires CUDA support"
            if name == "Stream"
            else f"Tried to instantiate dummy base class {name}"
        )


class Stream(_NoDevice):
    """A queue of a GPU's work."""


class Event(_NoDevice):
    """A place in such a queue."""


class CUDAGraph(_NoDevice):
    """Work of a GPU that was noted to be done again."""


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
    """What PyTorch raises where a GPU's memory is full; nobody raises it here."""


def __getattr__(name: str) -> Any:
    if name == "amp":
        return import_module(f"{__name__}.amp")
    raise missing.no_module_attribute("torch.cuda", name, [*globals(), "amp"])
