"""There is no GPU here; scripts that ask get an honest answer."""

from __future__ import annotations

from typing import Any, NoReturn

from gradscope.runtime import missing


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def is_initialized() -> bool:
    return False


def is_bf16_supported() -> bool:
    return False


def manual_seed(seed: int) -> None:
    """Nothing is there to be seeded, which is no error in PyTorch either."""


def manual_seed_all(seed: int) -> None:
    """Nothing is there to be seeded, which is no error in PyTorch either."""


def empty_cache() -> None:
    """Nothing is there to be emptied, which is no error in PyTorch either."""


def current_device() -> NoReturn:
    raise AssertionError("Torch not compiled with CUDA enabled")


def synchronize(device: Any = None) -> NoReturn:
    raise AssertionError("Torch not compiled with CUDA enabled")


def get_device_name(device: Any = None) -> NoReturn:
    raise AssertionError("Torch not compiled with CUDA enabled")


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.cuda", name, list(globals()))
