"""Every rule is tried on gradscope's engine, on it while it is recorded, and on PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gradscope.record.recorder import Recording, record
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.runtime.both import runtime

Seen = Callable[[Callable[[Trace], bool]], None]


@pytest.fixture(params=["gradscope", "recorded", pytest.param("torch", marks=pytest.mark.torch)])
def engine(request: pytest.FixtureRequest) -> str:
    """Whose engine runs."""
    return str(request.param)


@pytest.fixture
def recording(engine: str) -> Iterator[Recording | None]:
    """The recording under way, whose trace has to keep the rules of every trace."""
    if engine != "recorded":
        yield None
        return
    with record() as made:
        yield made
    assert check(made.trace()) == []


@pytest.fixture
def torch(engine: str, recording: Recording | None) -> Any:
    """The module a program would have imported as `torch`."""
    if engine != "torch":
        return runtime()
    import torch as real

    return real


@pytest.fixture
def seen(recording: Recording | None) -> Seen:
    """The last line of a rule's test: what its trace must show. Without a recording, nothing."""

    def look(shows: Callable[[Trace], bool]) -> None:
        if recording is not None:
            recording.stop()
            trace = recording.trace()
            assert shows(trace), "the trace does not show it"

    return look
