"""One program or script on both engines, recorded: two traces that should say the same."""

from __future__ import annotations

import random
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from gradscope.analysis.likeness import likeness, not_seen
from gradscope.record.from_runtime.runtime_engine import Runtime
from gradscope.record.from_runtime.script.aliases import torch_is_gradscope
from gradscope.record.recording import Options, Recording
from gradscope.trace.trace import Trace
from gradscope.trace.writer import MemoryWriter


def on_gradscope(program: Callable[[Any], Any], level: str = "engine") -> Trace:
    """The trace of a program on our own engine."""
    import gradscope.runtime as torch

    return _recorded(Runtime(), torch, program, level)


def on_pytorch(
    program: Callable[[Any], Any], level: str = "engine", *, native: bool = True
) -> Trace:
    """The trace of a program on PyTorch; `native`: with machine code, where there is any."""
    import torch

    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    return _recorded(PyTorch(), torch, program, level, native=native)


def script_on_gradscope(path: Path, *arguments: str) -> Trace:
    """The trace of a script on our own engine."""
    with torch_is_gradscope():
        return on_gradscope(lambda _: _run(path, arguments))


def script_on_pytorch(path: Path, *arguments: str) -> Trace:
    """The trace of a script on PyTorch."""
    return on_pytorch(lambda _: _run(path, arguments))


def _recorded(
    engine: Any, torch: Any, program: Callable[[Any], Any], level: str, *, native: bool = True
) -> Trace:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    recording = Recording(MemoryWriter(), Options(level=level, native=native), engine)
    try:
        with recording, redirect_stdout(StringIO()):
            program(torch)
    finally:
        torch.set_num_threads(threads)
    return recording.trace()


def _run(path: Path, arguments: tuple[str, ...]) -> None:
    with _settings([str(path), *arguments]):
        runpy.run_path(str(path), run_name="__main__")


@contextmanager
def _settings(argv: list[str]) -> Iterator[None]:
    before, sys.argv, state = sys.argv, argv, random.getstate()
    np.random.seed(0)
    try:
        yield
    finally:
        random.setstate(state)
        sys.argv = before


def lines(trace: Trace, *others: Trace, without: frozenset[str] = frozenset()) -> list[str]:
    """What a trace says, without what one of the others could not see."""
    return list(likeness(trace, absent=not_seen(trace, *others) | without))
