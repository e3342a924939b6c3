"""What holds in every format: nothing a program names breaks it; the same in, the same out."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given

from gradscope.analysis.graph.selection import Selection
from gradscope.errors import MissingProgramError, RenderingError, UsageError
from gradscope.render import from_svg, graphviz_program
from gradscope.render.formats import Format, format_called, format_names, format_of_file
from gradscope.render.pictures import render, target_of, whole_scene
from gradscope.render.theme import DARK, LIGHT
from gradscope.scene.choices import ColorBy, GraphOf
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import GraphScene
from gradscope.scene.kinds import Form
from gradscope.trace.load_save import save
from gradscope.trace.trace import Trace
from tests.render.hostile import NAMES, named, names
from tests.shared.example_traces import mean_of_squares, nan_in_backward, shared_weight, two_layers
from tests.shared.searching import searching

needs_dot = pytest.mark.skipif(
    shutil.which("dot") is None, reason="Graphviz's dot is not installed: apt-get install graphviz"
)

TYPST = find_spec("typst") is not None
ALL_DETAILS = GraphOptions(saved=True, tensors=True)
BOTH = GraphOptions(saved=True, tensors=True, graph=GraphOf.BOTH)


def dot_of(trace: Trace, options: GraphOptions | None = None) -> str:
    return format_called("dot").write(graph_scene(trace, options), LIGHT).content.decode()


def svg_of(scene: GraphScene) -> bytes:
    return format_called("svg").write(scene, LIGHT).content


# The registry --------------------------------------------------------------------------------


def test_every_module_of_the_package_is_a_format() -> None:
    files = [path.name for path in resources.files("gradscope.render.formats").iterdir()]
    modules = sorted(name.removesuffix(".py") for name in files if re.match(r"[a-z]\w*\.py$", name))

    assert format_names() == modules
    assert {"dot", "json", "svg"} <= set(modules)


@pytest.mark.parametrize("name", format_names())
def test_a_format_is_called_what_its_module_is(name: str) -> None:
    format = format_called(name)

    assert isinstance(format, Format)
    assert format.name == name
    assert format_of_file(f"run.1{format.extension}") == name
    assert [format_of_file(f"run{ending}") for ending in format.endings] == [name] * len(
        format.endings
    )
    assert format.description


ALL = GraphOptions(everything=True)
TEXTS = sorted({*format_names()} - {"pdf", "perfetto", "png", "tensorboard"})
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


@pytest.mark.parametrize("called", [name for name in NAMES if UNSEEN.search(name)])
@pytest.mark.parametrize("name", TEXTS)
def test_no_text_of_a_format_holds_what_cannot_be_seen(name: str, called: str) -> None:
    format = format_called(name)

    trace, is_picture = named(called), format.takes == "picture"
    scene = graph_scene(trace, BOTH) if is_picture else whole_scene(trace, ALL, format.takes)

    content = format.write(scene, LIGHT).content

    assert not UNSEEN.search(content.decode())


@pytest.mark.parametrize("name", format_names())
def test_every_format_writes_the_same_bytes_twice_whatever_a_program_names(name: str) -> None:
    format = format_called(name)
    if format.needs_more and not TYPST:
        pytest.skip("typst is not installed: pip install typst")

    for trace in (mean_of_squares(), named('"><script>\n\u202e')):
        is_picture = format.takes == "picture"
        scene = (
            graph_scene(trace, BOTH)
            if is_picture
            else whole_scene(trace, GraphOptions(), format.takes)
        )
        drawn = format.write(scene, DARK)
        assert drawn.content
        assert drawn == format.write(scene, DARK)
        assert "\u202e".encode() not in drawn.content


def test_one_file_is_enough_for_a_new_format(tmp_path: Path) -> None:
    """The choices of the command line, its help, and files' endings follow from the registry."""
    folder = tmp_path / "formats"
    folder.mkdir()
    (folder / "shout.py").write_text(
        "from gradscope.render.formats import Drawn, Format\n"
        "def write(scene, theme):\n"
        "    return Drawn(scene.title.upper().encode(), ('loud',))\n"
        "FORMAT = Format('shout', '.shout', 'the title, louder', write)\n"
    )
    save(mean_of_squares(), tmp_path / "t.json")
    program = (
        "import gradscope.render.formats as formats\n"
        f"formats.__path__.append({str(folder)!r})\n"
        "import sys; from gradscope import cli\n"
        "cli.main(sys.argv[1:])\n"
    )

    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "200"},
        )

    names = ", ".join(sorted([*format_names(), "shout"]))
    assert names.replace(", tensorboard", " or tensorboard") in " ".join(
        ran("render", "--help").stdout.split()
    )
    assert ran("render", "t.json", "-f", "shout", "-o", "-").stdout == "EX.PY · BACKWARD GRAPH"
    assert ran("render", "t.json", "-o", "a.shout").stderr == "gradscope: loud\n"
    assert (tmp_path / "a.shout").read_text() == "EX.PY · BACKWARD GRAPH"
    assert names in ran("render", "t.json", "-f", "gif").stderr


def test_a_format_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(UsageError, match=f"no format 'gif'; choose {', '.join(format_names())}"):
        format_called("gif")


def test_a_files_name_says_its_format() -> None:
    assert format_of_file("a.b.SVG") == "svg"
    assert format_of_file("a.gv") == "dot"
    assert format_of_file("a.graph.json") == format_of_file("a.svg.json") == "json"
    assert format_of_file("a.speedscope.json") == "speedscope"
    assert format_of_file("events.out.tfevents") == "tensorboard"
    assert format_of_file("a.gif") == format_of_file("svg") == ""


def test_the_page_about_formats_has_each_of_them() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "formats.md").read_text(
        encoding="utf-8"
    )

    assert [name for name in format_names() if f"`{name}`" not in page] == []


# DOT -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "trace", "options"),
    [
        ("mean_of_squares", mean_of_squares, ALL_DETAILS),
        ("two_layers", two_layers, GraphOptions()),
        ("nan_in_backward", nan_in_backward, GraphOptions(color_by=ColorBy.TIME)),
        (
            "shared_weight_around",
            lambda: shared_weight(5),
            GraphOptions(selection=Selection(around="MvBackward0#3", hops=1)),
        ),
        ("two_layers_folded", two_layers, GraphOptions(limit=6)),
    ],
)
def test_the_dot_of_a_picture_is_as_it_was_reviewed(
    name: str,
    trace: Callable[[], Trace],
    options: GraphOptions,
    golden: Callable[[str, str], None],
) -> None:
    golden(f"{name}.dot", dot_of(trace(), options))


def test_no_picture_uses_splines_that_abort_graphviz() -> None:
    assert "ortho" not in dot_of(two_layers())


STRING = r'"(?:\\.|[^"\\])*"'
MARKUP = r"<(?:[^<>]|<[^<>]*>)*>"  # a label, with its tags
TOKENS = re.compile(rf"\s*(?:({STRING})|({MARKUP})|([\w.]+)|(->|[{{}}\[\]=;]))", re.DOTALL)
WELL_FORMED = re.compile(
    r"(digraph|subgraph|graph|node|edge|b\d+|gradscope|cluster_\d+|[a-z]+|[\d.]+)$"
)


def tokens_of(source: str) -> list[tuple[str, str]]:
    """DOT's tokens, by a reading of its grammar; fails where the text is none."""
    found, place = [], 0
    while source[place:].strip():
        match = TOKENS.match(source, place)
        assert match, f"no token at {source[place : place + 40]!r}"
        kind = ["string", "markup", "word", "mark"][match.lastindex - 1]  # type: ignore[operator]
        found.append((kind, match[match.lastindex or 0]))
        place = match.end()
    return found


@given(names)
def test_whatever_a_program_names_dot_stays_dot(name: str) -> None:
    tokens = tokens_of(dot_of(named(name), BOTH))
    words = [text for kind, text in tokens if kind == "word"]

    assert [word for word in words if not WELL_FORMED.match(word)] == []
    for kind, text in tokens:
        if kind == "markup":
            ET.fromstring(f"<label>{text[1:-1]}</label>")


@needs_dot
@pytest.mark.parametrize("name", NAMES)
def test_graphviz_reads_back_the_same_boxes_whatever_they_are_called(name: str) -> None:
    scene = graph_scene(named(name), ALL_DETAILS)

    drawn = json.loads(
        subprocess.run(
            ["dot", "-Tdot_json"],
            input=dot_of(named(name), ALL_DETAILS).encode(),
            capture_output=True,
            check=True,
        ).stdout
    )

    boxes = [each for each in drawn["objects"] if each["name"].startswith("b")]
    assert len(boxes) == len(scene.boxes)
    assert len(drawn["edges"]) == len(scene.arrows)


# SVG -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_program_names_svg_is_xml_that_runs_nothing(name: str) -> None:
    for options in (ALL_DETAILS, GraphOptions(limit=1), BOTH):
        svg = svg_of(graph_scene(named(name), options))
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(svg).iter()}
        styles = {e.text for e in ET.fromstring(svg).iter() if e.tag.endswith("}style")}

        assert tags <= {"svg", "g", "title", "style", "rect", "polygon", "path", "text", "tspan"}
        assert styles == {
            e.text for e in ET.fromstring(svg_of(graph_scene(mean_of_squares()))).iter()
            if e.tag.endswith("}style")
        }  # fmt: skip


def test_an_svg_shows_a_name_as_it_is() -> None:
    svg = svg_of(graph_scene(named(r"\N & <G>"), ALL_DETAILS))

    texts = [e.text or "" for e in ET.fromstring(svg).iter() if e.tag.endswith("}text")]

    assert r"\N & <G>" in texts


def test_an_svg_shows_every_box_arrow_and_frame_with_its_words() -> None:
    scene = graph_scene(two_layers(), ALL_DETAILS)
    root = ET.fromstring(svg_of(scene))
    texts = Counter((e.text or "").strip() for e in root.iter() if e.tag.endswith("}text"))
    heads = [e for e in root.iter() if e.tag.endswith("}polygon")]

    assert texts["AddmmBackward0"] == 2
    assert texts["layers0.linear · Linear"] == texts["layers1 · Block"] == 1
    assert texts["return F.linear(x, self.weight, self.bias)"] == 2
    assert texts["ran 1st, 5.50 µs"] == 1
    assert texts["loss"] == 0
    flows = [arrow for arrow in scene.arrows if arrow.form is not Form.SAVED]
    assert len(heads) == len(flows)


def test_the_same_trace_gives_the_same_bytes() -> None:
    assert svg_of(graph_scene(two_layers())) == svg_of(graph_scene(two_layers()))


# PNG and PDF ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
@pytest.mark.parametrize("by", ["typst", "dot"])
def test_png_and_pdf_are_what_they_say(
    name: str, begins: bytes, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "typst" and not TYPST:
        pytest.skip("typst is not installed: pip install typst")
    if by == "dot":
        if shutil.which("dot") is None:
            pytest.skip("Graphviz's dot is not installed: apt-get install graphviz")
        monkeypatch.setattr(from_svg, "find_spec", lambda _: None)

    drawn = format_called(name).write(graph_scene(mean_of_squares()), DARK)

    assert drawn.content.startswith(begins)
    assert drawn.notes == ()


# JSON ----------------------------------------------------------------------------------------


@given(names)
@searching(50)
def test_whatever_a_program_names_json_says_it(name: str) -> None:
    trace = named(name)
    scene = graph_scene(trace, BOTH)

    document = json.loads(format_called("json").write(scene, LIGHT).content)

    assert document["boxes"][0]["title"] == scene.boxes[0].title
    assert [box["id"] for box in document["boxes"]] == [box.id for box in scene.boxes]


# Without typst and Graphviz ------------------------------------------------------------------


def without_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_svg, "find_spec", lambda _: None)
    monkeypatch.setattr(from_svg.shutil, "which", lambda _: None)


def test_without_typst_and_graphviz_a_png_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    without_either(monkeypatch)

    with pytest.raises(MissingProgramError, match=r"pip install typst.* -f svg "):
        format_called("png").write(graph_scene(mean_of_squares()), LIGHT)


@needs_dot
def test_a_picture_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphviz_program, "TIMEOUT_SECONDS", 0.001)

    with pytest.raises(RenderingError, match="did not finish a picture of 5 boxes"):
        graphviz_program.draw(graph_scene(mean_of_squares()), LIGHT, "png")


@needs_dot
def test_what_graphviz_refuses_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphviz_program, "source_of", lambda *_: b"digraph { oops")

    with pytest.raises(RenderingError, match=r"^dot failed: Error: .*syntax error in line 1.*$"):
        graphviz_program.draw(graph_scene(mean_of_squares()), LIGHT, "png")


# Files ---------------------------------------------------------------------------------------


def test_render_writes_the_format_that_the_files_name_asks_for(tmp_path: Path) -> None:
    written = render(mean_of_squares(), tmp_path / "a.dot")

    assert written.path.read_text(encoding="utf-8") == dot_of(mean_of_squares())
    assert len(written.scene.boxes) == 5


def test_render_draws_the_part_that_is_asked_for(tmp_path: Path) -> None:
    written = render(two_layers(2), tmp_path / "a.json", around="MeanBackward0#2", step=1)

    assert written.scene.title == "train.py · step 1 · 2 hops around MeanBackward0#2"


def test_a_theme_that_does_not_exist_is_answered_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no theme 'blue'; choose light, dark"):
        render(mean_of_squares(), tmp_path / "a.dot", theme="blue")


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(RenderingError, match="No such file or directory"):
        render(mean_of_squares(), tmp_path / "missing" / "a.dot")


def test_a_file_whose_name_asks_for_nothing_is_answered_with_the_choices(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"use one of \.chrome\.json, \.dot, \.gexf, \.graphml, \.html"
    ):
        render(mean_of_squares(), tmp_path / "a.gif")


@pytest.mark.parametrize(
    ("output", "format", "path", "name"),
    [
        (None, "dot", "runs/trace.dot", "dot"),
        (None, "json", "runs/trace.graph.json", "json"),
        ("out.svg", None, "out.svg", "svg"),
        ("out", "png", "out", "png"),
        ("out.svg", "dot", "out.svg", "dot"),
        ("-", "dot", None, "dot"),
        ("-", None, None, "svg"),
        (None, "perfetto", "runs/trace.pftrace", "perfetto"),
        (None, "chrome", "runs/trace.chrome.json", "chrome"),
        (None, None, "runs/trace.svg", "svg"),
    ],
)
def test_where_a_picture_goes(
    output: str | None, format: str | None, path: str | None, name: str
) -> None:
    target = target_of(Path("runs/trace.json.gz"), Path(output) if output else None, format)

    assert (target.path, target.format.name) == (Path(path) if path else None, name)


def test_the_trace_itself_is_never_written_over() -> None:
    with pytest.raises(UsageError, match="is the trace itself"):
        target_of(Path("trace.json"), Path("trace.json"), None)
