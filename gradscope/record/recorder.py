"""Functions for programs: `record()`, and `span`, `mark` and `step` for parts of them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradscope.record.acts.kept.node_checks import check_engine
from gradscope.record.engines import AUTO, imported
from gradscope.record.notes.sites import is_ours
from gradscope.record.process.claim import current
from gradscope.record.process.trace_file import said_of, writer_for
from gradscope.record.recording import Options, Recording
from gradscope.trace.writer import MemoryWriter


def record(
    path: str | os.PathLike[str] | None = None,
    *,
    level: str = "engine",
    on: str = AUTO,
    **limits: Any,
) -> Recording:
    """Record a block: `with gradscope.record("trace.json"): …`.

    Without a path the trace stays in memory: `recording.trace()`. `on` is `torch`, `gradscope`, or
    `auto`: PyTorch if the program has imported it and has not imported gradscope's runtime.
    """
    options, engine = Options(level=level, **limits), imported(on)
    check_engine(options, engine.facts(level))  # raises for a level that the engine does not have
    if path is None:
        return Recording(MemoryWriter(), options, engine)
    writer = writer_for(Path(path), options.max_bytes, options.keep or 0)
    if elsewhere := said_of(writer, Path(path)):
        warnings.warn(elsewhere, stacklevel=1 + _frames_of_ours())
    return Recording(writer, options, engine)


def _frames_of_ours() -> int:
    """Number of frames above the program that called us."""
    frame, many = sys._getframe(1), 0
    while frame.f_back is not None and is_ours(frame.f_code):
        frame, many = frame.f_back, many + 1
    return many


@contextmanager
def span(name: str) -> Iterator[None]:
    """Name a part of the program: `with gradscope.span("loss"): …`. No cost without a recording."""
    recording = current()
    session = None if recording is None else recording.session
    if session is None:
        yield
        return
    number = session.contexts.spans.begin(name)
    try:
        yield
    finally:
        session.contexts.spans.end(number)


def mark(name: str, note: str = "") -> None:
    """Mark a point in time with a name. No cost without a recording."""
    recording = current()
    if recording is not None:
        recording.mark(name, note)


def step(number: int | None = None) -> None:
    """Begin a training step. Not needed with an optimizer, whose steps are detected."""
    recording = current()
    if recording is not None:
        recording.step(number)


__all__ = ["Options", "Recording", "mark", "record", "span", "step"]
