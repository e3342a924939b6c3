"""Pictures of graphs: folded, laid out and drawn, small ones and large ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from statistics import median

import numpy as np

from bench.measure import in_turn, report, report_ratio, seconds
from gradscope.render.formats import format_called
from gradscope.render.pictures import whole_scene
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.terminal.terminal import Terminal
from gradscope.render.theme import LIGHT
from gradscope.render.views.timeline import timeline_lines
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.layout.arrays.graph import Flat
from gradscope.scene.layout.arrays.lay_out import lay_out
from gradscope.scene.layout.legible import LEAST, legible_scene, title_height
from gradscope.scene.layout.picture import layout
from gradscope.scene.timeline.timeline import TimelineOptions, timeline_scene
from gradscope.trace.load_save import load
from gradscope.trace.schema import Edge, GraphTask, Node, NodeBegin, NodeEnd
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
LARGE = 40_000
LISTED = 60_000


def main() -> None:
    """Print how long pictures and files for other programs take, and how large titles are."""
    svg = format_called("svg").write
    slowest, smallest = 0.0, 1e9
    for path, graph in product(sorted(GALLERY.glob("*.json*")), GraphOf):
        trace, options = load(path), GraphOptions(graph=graph)
        drawn = seconds(lambda t=trace, o=options: svg(legible_scene(t, o), LIGHT))
        slowest = max(slowest, drawn)
        smallest = min(smallest, title_height(legible_scene(trace, options)))
    report("the slowest graph, or both, of the gallery, from trace to SVG", slowest, 1.0, "s")
    report("a title that can be read, against the smallest in them", LEAST / smallest, 1.0, "×")

    report(
        f"a picture of {LARGE:,} nodes without a pattern, to SVG",
        seconds(partial(_drawn, large())), 1.5, "s",
    )  # fmt: skip
    loop = graph_scene(load(next(GALLERY.glob("rnn.json*"))), GraphOptions(everything=True))
    report(f"the layout of {len(loop.boxes):,} boxes", seconds(lambda: layout(loop)), 2.0, "s")

    report(
        "the layout of 100,000 boxes, 200,000 arrows between them",
        median(seconds(partial(lay_out, tangle(100_000))) for _ in range(3)), 0.5, "s",
    )  # fmt: skip

    trace = large(LISTED)
    report(f"`timeline --all` of {LISTED:,} nodes", seconds(partial(_listed, trace)), 2.0, "s")
    for name, limit in (("perfetto", 1.0), ("tensorboard", 4.0)):
        report(f"their file for {name}", seconds(partial(_written, trace, name)), limit, "s")

    if shutil.which("dot"):
        scene = legible_scene(load(next(GALLERY.glob("resnet.json*"))), GraphOptions())
        source = format_called("dot").write(scene, LIGHT).content
        compared = in_turn(
            lambda: svg(scene, LIGHT),
            lambda: subprocess.run(["dot", "-Tsvg"], input=source, check=True, capture_output=True),
            rounds=5,
        )
        report_ratio("the SVG of ResNet-18", "Graphviz's dot", compared, 3.0)


def _drawn(trace: Trace) -> bytes:
    return format_called("svg").write(legible_scene(trace, GraphOptions()), LIGHT).content


def _listed(trace: Trace) -> None:
    scene = timeline_scene(trace, TimelineOptions(rows=0, tasks=0))
    with Path(os.devnull).open("w", encoding="utf-8") as file:
        Terminal(file).show(timeline_lines(scene, 100, UNICODE))


def _written(trace: Trace, name: str) -> bytes:
    format = format_called(name)
    return format.write(whole_scene(trace, GraphOptions(), format.takes), None).content


def tangle(boxes: int) -> Flat:
    """Boxes that each send two gradients to some of the twenty after them."""
    chance = np.random.default_rng(0)
    tails = np.repeat(np.arange(boxes - 1), 2)
    heads = tails + 1 + np.where(np.arange(len(tails)) % 2, chance.integers(0, 20, len(tails)), 0)
    sizes = chance.uniform(30, 70, boxes)
    return Flat(
        2.5 * sizes, sizes, 2 * sizes, tails, np.minimum(heads, boxes - 1), np.zeros(len(tails))
    )


def large(nodes: int = LARGE) -> Trace:
    """A graph in which nothing repeats, with two edges from each node to one made before."""
    chance = Random(0)
    rows: list[Node | Edge | GraphTask | NodeBegin | NodeEnd] = [
        Node(id, f"{chance.choice('ABCDEFGH')}Backward0", id) for id in range(nodes)
    ]
    rows += [
        Edge(id, index, chance.randrange(max(0, id - 50), id))
        for id in range(1, nodes)
        for index in range(2)
    ]
    rows.append(GraphTask(0, roots=(nodes - 1,)))
    for place, id in enumerate(range(nodes - 1, -1, -1)):
        rows += [
            NodeBegin(task=0, node=id, t=8 * place),
            NodeEnd(task=0, node=id, t=8 * place + 5),
        ]
    return trace_of(*rows)
