"""Compiles all kernels at once: `gradscope warmup`."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from gradscope.machine_code.cache_folder import cache_folder
from gradscope.runtime import fast
from gradscope.runtime.core.kernels.compile_notices import to_warmup
from gradscope.runtime.fast.compiling.fused import kept_kernels


@dataclass(frozen=True, slots=True)
class Warmed:
    """Result of a warm-up."""

    compiled: int
    there: int
    seconds: float
    folder: Path | None


def families() -> list[str]:
    """The files of compiled kernels: arrays.fast_elementwise, random.fast_normal and so on."""
    found = (m.name for m in pkgutil.walk_packages(fast.__path__, f"{fast.__name__}."))
    names = (name.removeprefix(f"{fast.__name__}.") for name in found)
    return sorted(name for name in names if name.rpartition(".")[2].startswith("fast"))


def family(name: str) -> Any:
    return import_module(f"{fast.__name__}.{name}")


def warm_up(tell: Callable[[str], None]) -> Warmed:
    """Compile what is not cached on disk. `tell` receives progress messages."""
    begin = perf_counter()
    with to_warmup(tell):
        for name in families():
            family(name).warm()
        chains = list(kept_kernels())
    from gradscope.runtime.fast.compiling.compiled import KERNELS

    every = [*KERNELS, *chains]
    made = sum(sum(kernel.stats.cache_misses.values()) for kernel in every)
    there = sum(sum(kernel.stats.cache_hits.values()) for kernel in every)
    return Warmed(made, there, perf_counter() - begin, cache_folder())
