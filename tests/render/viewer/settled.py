"""When a page has shown what it was told, however busy the machine is."""

from __future__ import annotations

import time
from typing import Any

SETTLES = 40
"""Milliseconds in which an idle machine paints; then the page says when it has painted twice."""
PAINTED_TWICE = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def settle(page: Any) -> None:
    """Wait until the page has painted what it was told, and what followed of that."""
    page.wait_for_timeout(SETTLES)
    page.evaluate(PAINTED_TWICE)


def wait_until(page: Any, expression: str, argument: Any = None) -> None:
    """Wait until an expression of the page is true.

    Playwright's `wait_for_function` evaluates text inside the page if it is not true at once,
    which the page's Content-Security-Policy forbids.
    """
    last = time.monotonic() + 30
    while not page.evaluate(expression, argument):
        assert time.monotonic() < last, f"still not true: {expression}"
        page.wait_for_timeout(20)
