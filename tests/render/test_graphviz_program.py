"""A `dot` that does not do its work, and pictures that nothing can be written of."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.errors import RenderingError
from gradscope.render.graphviz_program import draw
from gradscope.render.pictures import render
from gradscope.render.theme import THEMES
from gradscope.scene.graph import graph_scene
from gradscope.scene.options import GraphOptions
from tests.example_traces import mean_of_squares


def pretend(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """Put a program called `dot` before all others."""
    program = folder / "dot"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return program


def test_a_dot_that_is_no_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = pretend(tmp_path, monkeypatch, "\x7f no program")

    with pytest.raises(RenderingError) as told:
        draw(graph_scene(mean_of_squares(), GraphOptions()), THEMES["light"], "svg")

    assert str(told.value) == f"cannot run {program}: Exec format error"


def test_what_dot_complains_of_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, "#!/bin/sh\necho 'no fonts' >&2\nexit 3\n")

    with pytest.raises(RenderingError, match=r"^dot failed: no fonts$"):
        draw(graph_scene(mean_of_squares(), GraphOptions()), THEMES["light"], "svg")


def test_an_svg_that_cannot_be_written_is_called_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, "#!/bin/sh\ncat\n")
    picture = tmp_path / "nowhere" / "a.svg"

    with pytest.raises(RenderingError) as told:
        render(mean_of_squares(), picture)

    assert str(told.value) == f"cannot write {picture}: No such file or directory"
