"""Which detector notices a planted fault first."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import pytest

import gradscope.runtime as torch
from tests.faults.detectors import DETECTORS

Programs = dict[str, Callable[[], None]]

DEAR = (
    "gradients",
    "threads share leaves",
    "a hundred backwards inside each other",
    "second gradients",
    "graphs die with their last tensor",
)
"""These take 12 to 60 ms, all others together 40: most faults are noticed before their turn."""
ON_ENGINE: Programs = {
    name: lambda name=name: DETECTORS[name](torch)
    for name in (*(name for name in DETECTORS if name not in DEAR), *DEAR)
}


def first_noticed(programs: Programs) -> str:
    """The first detector that notices something, on a thread of its own: what a fault leaves
    behind in a thread's state ends with it.
    """
    found: list[str] = []

    def look() -> None:
        for name, program in programs.items():
            try:
                program()
            except (Exception, pytest.fail.Exception) as error:
                found.append(f"{name}: {error!r}")
                return

    with warnings.catch_warnings():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    return "".join(found)
