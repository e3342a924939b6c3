"""Chromium, and axe-core to check pages in it, where they are installed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
AXE = Path(os.environ.get("GRADSCOPE_AXE", Path(__file__).parents[2] / ".venv/cache/axe.min.js"))

needs_axe = pytest.mark.skipif(
    not AXE.exists(), reason="axe-core is not installed: tools/axe.sh fetches it"
)


def program() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium() -> Generator[Any]:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install '.[browser]'"
    )
    if program() is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program())
        yield browser
        browser.close()


def check_accessible(page: Any) -> None:
    """Fail with what axe-core finds on the page."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        "axe.run().then(found => found.violations.map(each => [each.id, each.nodes.length,"
        "each.nodes.slice(0, 3).map(node => node.html + node.failureSummary)]))"
    )
    assert found == [], json.dumps(found, indent=1)
