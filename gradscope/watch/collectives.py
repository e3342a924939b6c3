"""Collectives: by which processes that train together exchange tensors, and wait for each other.

Those of a program: what PyTorch's own parts call in C++ (DistributedDataParallel) is not seen.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from gradscope.watch.listener import Faults, Listener

NAMES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather",
    "gather_object", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor",
    "scatter", "scatter_object_list",
)  # fmt: skip


class Collectives:
    """Stands in for them where programs find them, in `torch.distributed`."""

    def __init__(self, listener: Listener, faults: Faults) -> None:
        self._listener = listener
        self._faults = faults
        self._own: dict[str, Any] = {}
        self._ours: dict[str, Any] = {}

    def start(self) -> None:
        if dist.is_available():
            self._own = {name: getattr(dist, name) for name in NAMES if hasattr(dist, name)}
            self._ours = {name: self._told(name, own) for name, own in self._own.items()}
            self._put(self._own, self._ours)

    def stop(self) -> None:
        self._put(self._ours, self._own)

    def _put(self, there: dict[str, Any], others: dict[str, Any]) -> None:
        for name, function in others.items():
            if getattr(dist, name) is there[name]:
                setattr(dist, name, function)

    def _told(self, name: str, own: Any) -> Any:
        listener, guarded = self._listener, self._faults.guarded

        @wraps(own)
        def call(*given: Any, **more: Any) -> Any:
            if torch.compiler.is_compiling():  # to a compiler it is the original
                return own(*given, **more)
            goes_on = bool(more.get("async_op"))
            shown = f"{name}, asynchronous" if goes_on else name
            token = guarded("a collective began", listener.collective_begins, shown)
            try:
                return own(*given, **more)
            finally:
                guarded("a collective ended", listener.collective_ends, token)

        return call
