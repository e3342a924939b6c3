"""`torch.multiprocessing`: Python's module, with support for tensors in pipes and queues."""

from __future__ import annotations

import multiprocessing
from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
    start_processes,
)
from gradscope.runtime.multiprocessing.tensors import send_tensors

__all__ = [  # noqa: PLE0604  names, all of them
    *multiprocessing.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_STRATEGIES = {"file_descriptor", "file_system"}


class _Strategy:
    """The strategy that the program set. Tensors are copied, whatever it is."""

    name = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    return _Strategy.name


def set_sharing_strategy(new_strategy: str) -> None:
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {_STRATEGIES}"
        )
    _Strategy.name = new_strategy


def __getattr__(name: str) -> Any:
    if hasattr(multiprocessing, name):
        return getattr(multiprocessing, name)
    raise missing.no_module_attribute("torch.multiprocessing", name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *multiprocessing.__all__})


send_tensors()
