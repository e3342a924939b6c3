"""One recording at a time, whoever starts another one, and when."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.errors import RecordingError
from gradscope.record.recorder import record
from gradscope.record.recording import Recording


class Asked:
    """An engine that starts another recording, in another thread, when a first one asks it."""

    def __init__(self, engine: Any, other: Recording) -> None:
        self._engine = engine
        self._other = other
        self.refusal: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def is_watched(self) -> bool:
        watched: bool = self._engine.is_watched()
        with ThreadPoolExecutor(1) as pool:
            self.refusal = pool.submit(self._other.start).exception()
        return watched


def backward() -> None:
    torch.ones(2, requires_grad=True).sum().backward()


def test_a_recording_that_starts_while_another_one_starts_is_refused() -> None:
    first, second = record(on="gradscope"), record(on="gradscope")
    asked = Asked(first.engine, second)
    first.engine = asked

    with first:
        backward()
    with record(on="gradscope") as third:
        backward()

    assert isinstance(asked.refusal, RecordingError)
    assert "another recording is active" in str(asked.refusal)
    assert first.trace().event_count == third.trace().event_count


def test_a_recording_that_cannot_start_keeps_no_other_from_starting() -> None:
    first = record(on="gradscope")
    with first, pytest.raises(RecordingError):
        first.start()
    broken = record(on="gradscope")
    broken.options.extra["x"] = object()  # its facts cannot be written
    with pytest.raises(TypeError):
        broken.start()
    with record(on="gradscope") as last:
        backward()

    assert last.trace().event_count > 0
