"""Every test here runs on gradscope's dispatcher, on it while recorded, and on PyTorch's."""

from __future__ import annotations

import itertools

import pytest

from tests.runtime.rules.conftest import engine, recording, seen, torch

__all__ = ["engine", "name", "recording", "seen", "torch"]

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """A namespace that nobody has used."""
    return f"gradscope_test_{next(_numbers)}"
