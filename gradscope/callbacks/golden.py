"""Compares the graph of a test with a stored one, with the output of `gradscope diff`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.text import Text

from gradscope.analysis.likeness import Comparison, compare
from gradscope.analysis.likeness.aspects import Aspect, Section
from gradscope.errors import EmptyTraceError
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.views.differences import differences_lines
from gradscope.scene.differences import differences_scene
from gradscope.trace.assemble import assemble
from gradscope.trace.load_save import load, save
from gradscope.trace.ragged import take
from gradscope.trace.schema import Meta, ParameterSummary, StepSummary, String, Value
from gradscope.trace.table import Block
from gradscope.trace.trace import Trace

WIDTH = 100
OF_THE_GRAPH = (Aspect.STRUCTURE, Aspect.NAMES, Aspect.SAVED, Aspect.EXECUTION, Aspect.ACCUMULATION)
PLACES_ONLY = frozenset(
    {"nodes are created by a line that changed", "nodes are created in another step"}
)
"""Differences between names that leave the graph as it is."""
FACTS = frozenset({"level", "producer", "producer_version", "observed", "inferred", "absent"})
"""Keys of a trace's `meta` that are stored: not when and where it was recorded."""
UPDATE = "--gradscope-update"


@dataclass(frozen=True, slots=True)
class Golden:
    """The file of the trace to compare with; `update`: write it again."""

    path: Path
    update: bool = False


def another_graph(trace: Trace, golden: Golden) -> Iterator[str]:
    """Differences between the graph and the stored one, unless that is to be replaced."""
    there = golden.path.exists()
    if not there and not golden.update:
        yield f"same_graph: {golden.path} does not exist; to write it, run pytest {UPDATE}"
        return
    try:
        before = load(golden.path) if there else trace
        comparison = _of_graph(compare(before, trace))
    except EmptyTraceError as error:
        yield f"same_graph: {error}"
        return
    if there and comparison.first is None:
        return
    if golden.update:
        golden.path.parent.mkdir(parents=True, exist_ok=True)
        save(_kept(trace), golden.path)
        return
    scene = differences_scene(comparison, (before, trace), (golden.path.name, "this run"))
    text = plain(differences_lines(scene, WIDTH, UNICODE))
    yield f"same_graph: not the graph in {golden.path}; to accept it, run pytest {UPDATE}\n{text}"


def plain(lines: Iterable[Text]) -> str:
    """Lines of a view, for the report of a test."""
    return "\n".join(each.plain.rstrip() for each in lines).strip()


def _of_graph(comparison: Comparison) -> Comparison:
    """The graph only: without lines, steps, other events and values."""
    sections = []
    for each in comparison.sections:
        if each.kind is Aspect.NAMES and {what for what, _ in each.counts} <= PLACES_ONLY:
            sections.append(Section(each.kind, None, (), each.of))
        elif each.kind in OF_THE_GRAPH:
            sections.append(each)
    return Comparison(tuple(sections), (), comparison.moved, comparison.same)


WITHOUT = {Value.TABLE, StepSummary.TABLE, ParameterSummary.TABLE}
"""Tables of values."""


def _kept(trace: Trace) -> Trace:
    """The trace without values and without the time and place of the recording."""
    meta = list(trace.rows(Meta))
    kept = [place for place, row in enumerate(meta) if row.key in FACTS]
    left_out = {row.value for row in meta} - {meta[place].value for place in kept}
    blocks = []
    for name, table in trace.tables.items():
        rows = np.arange(len(table), dtype=np.int64)
        if name == Meta.TABLE:
            rows = np.array(kept, np.int64)
        elif name in WITHOUT:
            rows = rows[:0]
        data = {column: take(cells, rows) for column, cells in table.data.items()}
        if name == String.TABLE:
            texts = ["" if text in left_out else text for text in table.texts("text")]
            data["text"] = np.array(texts, dtype=object)
        blocks.append(Block(name, len(rows), data))
    return Trace(assemble(blocks).tables, version=trace.version)
