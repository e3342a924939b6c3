"""Steps are captured where nothing is recorded."""

from __future__ import annotations

import time

import pytest

from gradscope.runtime.core import probe


@pytest.fixture(autouse=True)
def _nothing_is_recorded() -> None:
    """A recording that has ended beside other threads is told for a second more."""
    deadline = time.monotonic() + 10
    while probe.here is not None and time.monotonic() < deadline:
        time.sleep(0.02)
