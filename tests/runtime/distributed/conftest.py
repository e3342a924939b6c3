"""A folder with a script in it, for programs of several ranks."""

from __future__ import annotations

from tests.record.conftest import house

__all__ = ["house"]
