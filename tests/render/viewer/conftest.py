"""A browser for the page, where there is one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from gradscope.render.viewer.page import page as page_of
from gradscope.scene.viewer.scene import Earlier, viewer_scene
from gradscope.trace.trace import Trace

Opens = Callable[..., Any]


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Generator[Opens]:
    """Opens a trace's page from its file. What the page asks for or complains of fails the test."""
    said: list[str] = []
    contexts = []

    def open_page(
        trace: Trace,
        fragment: str = "",
        *,
        width: int = 1600,
        height: int = 1000,
        dark: bool = False,
        earlier: Trace | None = None,
    ) -> Any:
        file = tmp_path / f"page{len(contexts)}.html"
        before = None if earlier is None else Earlier(earlier, ("old.json", "new.json"))
        file.write_bytes(page_of(viewer_scene(trace, earlier=before)))
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda asked: asked.url.startswith(file.as_uri()) or said.append(f"asks {asked.url}"),
        )
        page.goto(file.as_uri() + fragment)
        page.wait_for_selector("html[data-ready]", timeout=10_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
