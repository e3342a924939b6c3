"""A part of a file, read for one step: views of that step print the same as of the whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gradscope
import gradscope.runtime
from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.identity.names import node_names
from gradscope.record.process import pace
from gradscope.render.formats import format_called
from gradscope.render.pictures import drawn_as
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.views.timeline import timeline_lines
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.timeline.timeline import TimelineOptions, timeline_scene
from gradscope.trace.file.file_lines import seal, unseal
from gradscope.trace.file.index import ADDED
from gradscope.trace.file.reading import of_step
from gradscope.trace.load_save import load, save
from gradscope.trace.schema import Node
from gradscope.trace.trace import Trace
from tests.fleet.growing import written

STEPS = 24


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write each step to the file at once, and read parts of small files."""
    monkeypatch.setattr(pace, "SOON", 0)
    monkeypatch.setattr(pace, "CALM", 0)
    monkeypatch.setattr(of_step, "WORTH_IT", 0)


def train(torch: Any, seed: int) -> None:
    """A training in which steps use what earlier ones created, in a random order."""
    chosen = random.Random(seed)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    average = [each.detach().clone() for each in model.parameters()]
    scale, state = torch.ones(3, requires_grad=True), torch.zeros(1)
    kept: list[Any] = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(5, 4)).pow(2).mean() + 0.1 * state.sum()
        if kept and chosen.random() < 0.5:
            kept.pop(chosen.randrange(len(kept))).backward()
        if chosen.random() < 0.5:
            kept.append((scale * torch.randn(3)).sin().sum())
            loss = loss + kept[0].detach()
        if chosen.random() < 0.5:
            state = loss.detach().reshape(1)
        loss.backward()
        with torch.no_grad():
            for mean, each in zip(average, model.parameters(), strict=True):
                mean.mul_(0.9).add_(each, alpha=0.1)
        optimizer.step()


def recorded_on_runtime(path: Path, seed: int) -> None:
    with gradscope.record(path):
        train(gradscope.runtime, seed)


def recorded_on_torch(path: Path, seed: int) -> None:
    torch = pytest.importorskip("torch")
    with gradscope.record(path, on="torch"):
        train(torch, seed)


def printed(trace: Trace, step: int) -> Iterator[str]:
    """What views of a step print and draw."""
    scene = timeline_scene(trace, TimelineOptions(step=step, rows=0, tasks=0))
    yield "\n".join(map(str, timeline_lines(scene, 100, UNICODE)))
    options = GraphOptions(
        graph=GraphOf.BACKWARD, selection=Selection(step=step), tensors=True, everything=True
    )
    yield drawn_as(format_called("dot"), trace, options)[1].content.decode()


@pytest.mark.parametrize(
    "record",
    [recorded_on_runtime, pytest.param(recorded_on_torch, marks=pytest.mark.torch)],
)
@pytest.mark.parametrize("seed", range(3))
def test_views_of_a_step_print_the_same_of_a_part_as_of_the_whole(
    tmp_path: Path, record: Callable[[Path, int], None], seed: int
) -> None:
    path = tmp_path / "trace.json"
    record(path, seed)
    whole = load(path)

    for step in random.Random(seed).sample(range(STEPS), 4):
        part = load(path, step=step)
        assert part.all_nodes is not None
        assert len(part.table(Node)) < len(whole.table(Node))
        assert list(printed(part, step)) == list(printed(whole, step))


def test_nodes_have_the_same_names_in_a_part(tmp_path: Path) -> None:
    path = written(tmp_path / "trace.json", steps=12)
    whole, part = load(path), load(path, step=7)
    nodes = part.table(Node)["id"].tolist()

    assert 0 < len(nodes) < len(whole.table(Node))
    assert [node_names(part).of(node) for node in nodes] == [
        node_names(whole).of(node) for node in nodes
    ]
    assert list(printed(part, 7)) == list(printed(whole, 7))


def test_a_step_that_is_not_there_reads_the_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "trace.json", steps=3)

    assert load(path, step=99) == load(path)


def test_a_file_that_was_cut_is_read_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "trace.json", steps=3)
    text = path.read_bytes()
    path.write_bytes(text[: -len(text) // 10])

    assert load(path, step=1) == load(path)


def test_a_file_whose_index_lacks_ids_is_read_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "trace.json", steps=3)
    *lines, index, end = path.read_bytes().splitlines(keepends=True)
    fields = unseal(index.removeprefix(b'"index":'))
    assert fields is not None
    older = {key: cells for key, cells in fields.items() if key not in {*ADDED, "crc32"}}
    assert older.keys() < fields.keys()
    path.write_bytes(b"".join([*lines, b'"index":' + seal(older) + b",\n", end]))

    assert load(path, [Node]).table(Node)["id"].tolist() == load(path).table(Node)["id"].tolist()
    assert load(path, step=1) == load(path)


def test_a_saved_trace_has_one_window_and_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    save(load(written(tmp_path / "written.json", steps=6)), path)

    assert load(path, step=3) == load(path)
    assert load(path, step=3).all_nodes is None
