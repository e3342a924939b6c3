"""Mermaid's flowcharts: whatever a program names, each line is one that Mermaid's grammar has."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gradscope.render.formats import format_called
from gradscope.render.theme import DARK, LIGHT
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.layout.legible import legible_scene
from tests.render.hostile import NAMES, named
from tests.shared.example_traces import two_layers

ALL_DETAILS = GraphOptions(saved=True, tensors=True)
TEXT = r'"(?:[A-Za-z0-9 _.,:()\[\]=+*/…·×µ-]|\#\d+;|<br>)+"'
LINES = re.compile(
    rf"""---|title:\ "(?:\\.|[^"\\])*"|flowchart\ TB|%%\ .*
    |\s+subgraph\ g\d+\[{TEXT}\]|\s+end
    |\s+b\d+(?:\({TEXT}\)|\[{TEXT}\]|\[\[{TEXT}\]\]|\[/{TEXT}/\]|\[\({TEXT}\)\])
    |\s+b\d+\ (?:-->|-\.-|-\.->|==>)(?:\|{TEXT}\|)?\ b\d+
    |\s+classDef\ \w+\ [\w:#,.\- ]+|\s+class\ [\w,]+\ \w+""",
    re.VERBOSE,
)


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_mermaids(name: str) -> None:
    for graph in (GraphOf.BACKWARD, GraphOf.FORWARD, GraphOf.BOTH):
        options = replace(ALL_DETAILS, graph=graph)
        text = format_called("mermaid").write(legible_scene(named(name), options), DARK).content
        assert [line for line in text.decode().splitlines() if not LINES.fullmatch(line)] == []


def test_frames_stand_in_frames() -> None:
    scene = graph_scene(two_layers(), ALL_DETAILS)
    lines = format_called("mermaid").write(scene, LIGHT).content.decode().splitlines()

    open_frames, deepest = 0, 0
    for line in lines:
        open_frames += line.strip().startswith("subgraph")
        open_frames -= line.strip() == "end"
        deepest = max(deepest, open_frames)
        assert open_frames >= 0
    assert (open_frames, deepest > 1) == (0, True)
    assert len([line for line in lines if "-->" in line]) == len(
        [arrow for arrow in scene.arrows if arrow.form == "function"]
    )


def test_more_than_mermaid_draws_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    mermaid = format_called("mermaid")
    monkeypatch.setattr("gradscope.render.formats.mermaid.MOST_ARROWS", 3)

    assert "Mermaid draws at most 3" in mermaid.write(graph_scene(two_layers()), LIGHT).notes[0]
