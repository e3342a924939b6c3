from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import gradscope
from gradscope.render import notebook
from gradscope.render.viewer.page import page
from gradscope.scene.viewer.scene import viewer_scene
from gradscope.trace.load_save import load, save
from tests.render.hostile import NAMES, named
from tests.shared.example_traces import mean_of_squares


class Frames(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_notebook_gets_the_page_a_picture_and_a_line(tmp_path: Path) -> None:
    save(mean_of_squares(), tmp_path / "t.json")
    bundle = gradscope.show(tmp_path / "t.json")._repr_mimebundle_()

    frames = Frames()
    frames.feed(bundle["text/html"])
    ((tag, attributes),) = frames.tags
    assert (tag, attributes["sandbox"]) == ("iframe", "allow-scripts")
    assert attributes["srcdoc"] == page(viewer_scene(load(tmp_path / "t.json"))).decode()
    assert ET.fromstring(bundle["image/svg+xml"]).tag.endswith("svg")
    assert bundle["text/plain"].startswith("<ex.py: ")


@pytest.mark.parametrize("name", NAMES[:4])
def test_no_name_leaves_the_frame(name: str) -> None:
    frames = Frames()
    frames.feed(gradscope.show(named(name))._repr_mimebundle_()["text/html"])

    assert [tag for tag, _ in frames.tags] == ["iframe"]


def test_a_page_too_large_for_a_notebook_is_a_picture_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(notebook, "LARGEST", 1_000)
    shown = gradscope.show(mean_of_squares())
    bundle = shown._repr_mimebundle_()

    assert "text/html" not in bundle
    assert "too large for a notebook: use save()" in bundle["text/plain"]
    shown.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_bytes().startswith(b"<!doctype html>")
