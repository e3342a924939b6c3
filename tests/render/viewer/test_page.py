"""The page's file: what was packed comes back, nothing in a name is HTML, nothing is loaded."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from gradscope.errors import EmptyTraceError, RenderingError, UsageError
from gradscope.render.pictures import page_scene, render
from gradscope.render.theme import DARK, LIGHT
from gradscope.render.viewer import join, page as pages
from gradscope.render.viewer.css import LANES, themes_css
from gradscope.render.viewer.page import page
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.viewer.scene import viewer_scene
from gradscope.scene.viewer.text_columns import TextColumn, ViewerScene
from gradscope.trace.schema import Node, Op
from gradscope.trace.trace import Trace
from tests.render.hostile import NAMES, named, names
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import (
    mean_of_squares,
    nan_in_backward,
    shared_weight,
    two_layers,
)
from tests.shared.searching import searching

TRACES: list[Callable[[], Trace]] = [
    mean_of_squares,
    nan_in_backward,
    lambda: shared_weight(5),
    two_layers,
]
DATA = re.compile(rb'(<script type="application/octet-stream" id="trace">)([\w+/=]*)(</script>)')


def unpacked(content: bytes) -> tuple[dict[str, object], dict[str, dict[str, object]]]:
    """The facts, and every column as a list; what `data.js` does."""
    found = DATA.search(content)
    assert found
    data = gzip.decompress(base64.b64decode(found[2]))
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + length])
    tables: dict[str, dict[str, object]] = {}
    for name, columns in head["tables"].items():
        tables[name] = {}
        for key, (dtype, offset, rows, first, text) in columns.items():
            width = int(dtype[1:])
            stored = np.frombuffer(data, np.uint8, rows * width, 8 + length + offset)
            numbers = np.ascontiguousarray(stored.reshape(width, rows).T).view(f"<{dtype}").ravel()
            values = numbers if first is None else first + np.cumsum(numbers.astype(np.float64))
            tables[name][key] = (
                [head["texts"][int(each)] for each in values] if text else values.tolist()
            )
    return head["facts"], tables


def told(scene: ViewerScene) -> dict[str, dict[str, object]]:
    return {
        name: {
            key: [scene.texts[place] for place in column.places]
            if isinstance(column, TextColumn)
            else column.astype(np.float32).tolist()
            if column.dtype.kind == "f"
            else column.tolist()
            for key, column in table.items()
        }
        for name, table in scene.tables.items()
    }


@pytest.mark.parametrize("trace", TRACES)
def test_columns_come_back_as_they_went_in(trace: Callable[[], Trace]) -> None:
    scene = viewer_scene(trace())

    facts, tables = unpacked(page(scene))

    np.testing.assert_equal(tables, told(scene))
    assert facts == scene.facts


def test_the_same_trace_gives_the_same_bytes() -> None:
    assert page(viewer_scene(two_layers())) == page(viewer_scene(two_layers()))


# Names ---------------------------------------------------------------------------------------


def around_the_data(content: bytes) -> bytes:
    return DATA.sub(rb"\1\3", content)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_program_names_only_the_data_differs(name: str) -> None:
    content = page(viewer_scene(named(name)))

    assert around_the_data(content) == around_the_data(page(viewer_scene(mean_of_squares())))
    shown = json.dumps(unpacked(content), ensure_ascii=False)
    assert not re.search("[\x00-\x1f\u202e\u2066\u2028]", shown)


@searching(25)
@given(names)
def test_no_name_breaks_the_page(name: str) -> None:
    found = page(viewer_scene(named(name)))

    assert around_the_data(found) == around_the_data(page(viewer_scene(mean_of_squares())))


# Nothing is loaded ---------------------------------------------------------------------------


class Reader(HTMLParser):
    """Collects what a browser would run, and every attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = ""
        self.texts: dict[str, str] = {}
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(key, value or "") for key, value in attrs]
        self.inside = tag if ("type", "application/octet-stream") not in attrs else ""

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in {"style", "script"}:
            self.texts[self.inside] = self.texts.get(self.inside, "") + data


def test_only_this_script_and_style_may_run_and_nothing_is_loaded() -> None:
    content = page(viewer_scene(mean_of_squares())).decode()
    reader = Reader()
    reader.feed(content)
    (policy,) = [value for key, value in reader.attributes if key == "content" and "src" in value]

    for tag, text in reader.texts.items():
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert content.count("</script") == 2
    assert not {key for key, _ in reader.attributes} & {"src", "href", "style", "srcset", "action"}
    assert not {key for key, _ in reader.attributes if key.startswith("on")}
    assert not re.search(r"https?://|@import|url\(", content)


def test_scripts_make_no_html_of_text() -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser"
    )

    assert not re.search(forbidden, join.script())


def test_scripts_share_one_scope_without_a_clash() -> None:
    declared = re.findall(
        r"^(?:async )?(?:function|const|let|class) (\w+)", join.script(), re.MULTILINE
    )

    assert sorted(declared) == sorted(set(declared))
    assert join.script().count("\n// ") >= len(join.module_names()) - 1


def test_no_script_names_a_colour() -> None:
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b", join.script())
    for theme in (LIGHT, DARK):
        assert theme.accent in themes_css()


def test_scripts_are_as_short_as_all_other_files() -> None:
    lengths = {
        path.name: len(path.read_text().splitlines()) for path in Path(join.FOLDER).rglob("*.*s")
    }

    assert {name for name, length in lengths.items() if length > 400} == set()


# What it says --------------------------------------------------------------------------------


def test_a_page_that_is_too_large_asks_for_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LARGEST", 1_000)

    with pytest.raises(RenderingError, match="select a part with --step N or --task N"):
        page(viewer_scene(mean_of_squares()))


def test_options_of_pictures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it supports --step, --task, --around and --graph"):
        render(mean_of_squares(), tmp_path / "a.html", options=GraphOptions(saved=True))


def test_render_writes_a_page(tmp_path: Path) -> None:
    written = render(mean_of_squares(), tmp_path / "a.html", around="MeanBackward0", theme="dark")

    content = written.path.read_bytes()
    assert content.startswith(b'<!doctype html>\n<html lang="en" data-theme="dark">')
    assert unpacked(content)[0]["script"] == "ex.py"


def test_the_page_has_as_many_colours_of_lanes_as_its_scripts_ask_for() -> None:
    assert f"export const LANES = {LANES};" in (join.SCRIPTS / "paint/paint.js").read_text("utf-8")
    assert len(DARK.backwards) == LANES
    assert f"--lane-{LANES - 1}:" in themes_css()


@pytest.mark.parametrize(("graph", "begins"), [(None, "backward"), (GraphOf.FORWARD, "forward")])
def test_a_page_may_begin_with_the_forward_graph_and_does_where_there_is_no_backward(
    graph: GraphOf | None, begins: str
) -> None:
    node, call = Node(0, "MulBackward0"), Op(0, "mul")
    options = GraphOptions(graph=graph)

    assert page_scene(trace_of(node, call), options).facts["begins"] == begins
    assert page_scene(trace_of(call), options).facts["begins"] == "forward"


def test_a_page_cannot_begin_with_a_forward_graph_that_is_not_there() -> None:
    with pytest.raises(EmptyTraceError, match="no forward calls"):
        page_scene(trace_of(Node(0, "MulBackward0")), GraphOptions(graph=GraphOf.FORWARD))
