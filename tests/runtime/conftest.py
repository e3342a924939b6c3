"""Tests that ask for `torch` run on gradscope's engine, on it while recorded, and on PyTorch's."""

from __future__ import annotations

from tests.runtime.rules.conftest import engine, recording, seen, torch

__all__ = ["engine", "recording", "seen", "torch"]
