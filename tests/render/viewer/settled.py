"""When a page has shown what it was told, however busy the machine is."""

from __future__ import annotations

from typing import Any

SETTLES = 40
"""Milliseconds in which an idle machine paints; then the page says when it has painted twice."""
PAINTED_TWICE = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def settle(page: Any) -> None:
    """Wait until the page has painted what it was told, and what followed of that."""
    page.wait_for_timeout(SETTLES)
    page.evaluate(PAINTED_TWICE)
