"""A `dot` that does not do its work, and pictures that nothing can be written of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gradscope.errors import RenderingError
from gradscope.render import from_svg
from gradscope.render.graphviz_program import draw
from gradscope.render.pictures import render
from gradscope.render.theme import THEMES
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.trace.schema import Edge, Node
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares


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
        draw(graph_scene(mean_of_squares(), GraphOptions()), THEMES["light"], "png")

    assert str(told.value) == f"cannot run {program}: Exec format error"


def test_what_dot_complains_of_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, "#!/bin/sh\necho 'no fonts' >&2\nexit 3\n")

    with pytest.raises(RenderingError, match=r"^dot failed: no fonts$"):
        draw(graph_scene(mean_of_squares(), GraphOptions()), THEMES["light"], "png")


def test_an_svg_that_cannot_be_written_is_called_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, "#!/bin/sh\ncat\n")
    picture = tmp_path / "nowhere" / "a.svg"

    with pytest.raises(RenderingError) as told:
        render(mean_of_squares(), picture)

    assert str(told.value) == f"cannot write {picture}: No such file or directory"


def test_a_png_that_graphviz_shrank_is_said_with_both_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = r"\211PNG\r\n\032\n\000\000\000\rIHDR\000\000\004\000\000\000\200\000"
    complaint = "dot: graph is too large for cairo-renderer bitmaps. Scaling by 0.25 to fit"
    pretend(
        tmp_path, monkeypatch, f"#!/bin/sh\ncat >&-\nprintf '{header}'\necho '{complaint}' >&2\n"
    )

    monkeypatch.setattr(from_svg, "find_spec", lambda _: None)

    written = render(mean_of_squares(), tmp_path / "a.png")

    (note,) = written.notes
    assert note.startswith(
        "Graphviz shrank the PNG to 25% of its size, to 1,024 × 32,768 pixels instead of 4,096 × "
        "131,072; for legible text, write an SVG"
    )


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's dot is not installed")
def test_what_graphviz_itself_says_of_a_png_too_large_is_understood() -> None:
    chain = trace_of(
        *(Node(id, "A") for id in range(600)), *(Edge(id, 0, id + 1) for id in range(599))
    )
    scene = graph_scene(chain, GraphOptions(everything=True))

    drawn = draw(scene, THEMES["light"], "png")

    assert len(drawn.notes) == 1
    assert "32,767 pixels instead of" in drawn.notes[0]
    assert draw(scene, THEMES["light"], "pdf").notes == ()
