"""The contents of each box of a graph's picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gradscope.analysis.graph.graph import GraphNode, NodeRun, NodeSaved, TensorMeta
from gradscope.analysis.identity.leaves import NamedLeaf
from gradscope.analysis.identity.sharding import part_in_words
from gradscope.analysis.identity.sites import Site
from gradscope.scene.graph.heat import Heat
from gradscope.scene.graph.lanes import Lanes
from gradscope.scene.graph.marks import Marks
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Box, BoxLine, Tone
from gradscope.scene.kinds import BoxMark, Form, NodeKind, kind_of
from gradscope.scene.readable import byte_count, duration, ordinal, plural, shape, shorten
from gradscope.trace.schema import NONE

CODE_LENGTH = 44
"""Largest number of characters of a source line in a box."""

MOST_BACKWARDS = 3
"""Largest number of backwards that a box lists."""


class BoxNames(Protocol):
    """The names of the nodes of a graph."""

    def of(self, node: int, /) -> str:
        """The unique name."""


@dataclass(frozen=True, slots=True)
class Nouns:
    """Nouns for the nodes of a graph, and for the boxes next to them."""

    node: str = "node"
    leaf: tuple[str, str] = ("leaf", "leaves")


@dataclass(frozen=True, slots=True)
class FoldedContents:
    """The contents of a folded box."""

    nodes: Sequence[int]  # ids
    leaves: int
    own_ns: int
    backwards: Sequence[int]  # in which its nodes took part
    each: str = ""  # the size of one iteration of a loop
    lines: Sequence[BoxLine] = ()


@dataclass(frozen=True, slots=True)
class BoxMaker:
    """Makes the boxes of one picture."""

    options: GraphOptions
    names: BoxNames
    marks: Marks
    heat: Heat
    hidden: Mapping[str, int]  # by box: edges that are not drawn
    lanes: Lanes
    several: bool  # backwards
    nouns: Nouns = Nouns()

    def node(self, id: str, node: GraphNode, group: str) -> Box:
        """The box of a node; for a leaf, the one box of all its uses."""
        if node.leaf:
            return self.leaf(id, node, node.leaf, (), group, node.backwards)
        name, ordinal_mark, number = node.unique.rpartition("#")
        numbered = ordinal_mark and name == node.name
        return Box(
            id=id,
            form=Form.FUNCTION,
            title=node.name,
            ordinal=f"#{number}" if numbered else "",
            kind=kind_of(node.name),
            lines=(*self.marks.lines(node.id), *source_lines(node.site), *self._facts(id, node)),
            marks=self.marks.of([node.id]),
            heat=self.heat.of.get(id),
            group=group,
            tooltip=_tooltip(node),
            nodes=(node.id,),
            lane=self.lanes.of([node.id]),
        )

    def leaf(
        self,
        id: str,
        node: GraphNode,
        leaf: NamedLeaf,
        extra: Sequence[BoxLine],
        group: str,
        backwards: Sequence[int],
    ) -> Box:
        """The box of a leaf, or of one use of it, with the backwards it takes part in."""
        known = leaf.tensor != NONE
        whole = f"{shape(leaf.shape)} {leaf.dtype}".strip()
        kind = [BoxLine(part_in_words(leaf.shard, whole))] if known else []
        return Box(
            id=id,
            form=Form.LEAF,
            title=leaf.title,
            ordinal="",
            kind=NodeKind.LEAF,
            lines=(*self.marks.lines(node.id), *kind, *extra, *self._facts(id, node, backwards)),
            marks=self.marks.of([node.id]),
            heat=self.heat.of.get(id),
            group=group,
            tooltip=_tooltip(node),
            nodes=(node.id,),
            lane=self.lanes.of([node.id]),
        )

    def saved(
        self, saved: NodeSaved, owner: str, node: int, group: str, more: Sequence[BoxLine] = ()
    ) -> Box:
        """The box of a value that a node saves for backward."""
        lines = [meta_line(saved.meta)] if saved.meta else []
        lines.append(BoxLine(f"{byte_count(saved.bytes)}{', released' if saved.released else ''}"))
        lines += more
        return Box(
            id=f"s{saved.id}",
            form=Form.SAVED,
            title=saved.slot,
            ordinal="",
            kind=NodeKind.OTHER,
            lines=tuple(lines),
            marks=(),
            heat=None,
            group=group,
            tooltip=(f"saved by {owner}",),
            nodes=(node,),
        )

    def folded(self, id: str, title: str, inside: FoldedContents, group: str) -> Box:
        """The folded box of a module's call or a loop."""
        contents = inside.each or plural(len(inside.nodes), self.nouns.node)
        if inside.leaves:
            contents += f", {plural(inside.leaves, *self.nouns.leaf)}"
        lines = [BoxLine(contents), *inside.lines]
        if inside.own_ns:
            lines.append(BoxLine(f"ran {duration(inside.own_ns)}"))
        lines += self._ran_at(inside.nodes)
        if self.several:
            lines += _in_backwards(inside.backwards)
        lines += self._measured(id)
        few = tuple(self.names.of(node) for node in inside.nodes[:12])
        marks = self.marks.of(inside.nodes)
        return Box(
            id=id,
            form=Form.FOLDED,
            title=title,
            ordinal="",
            kind=NodeKind.OTHER,
            lines=tuple(lines),
            marks=tuple(mark for mark in marks if mark is not BoxMark.NOT_RUN),
            heat=self.heat.of.get(id),
            group=group,
            tooltip=few + ("…",) * (len(inside.nodes) > len(few)),
            nodes=tuple(inside.nodes),
            lane=self.lanes.of(inside.nodes),
        )

    def _facts(
        self, id: str, node: GraphNode, backwards: Sequence[int] | None = None
    ) -> list[BoxLine]:
        lines = []
        if self.options.tensors:
            lines += [meta_line(meta) for meta in node.inputs if meta and not node.leaf]
        if node.inside != NONE:
            lines.append(BoxLine(f"runs inside {self.names.of(node.inside)}"))
        if self.several:
            lines += _ran_in(node, node.backwards if backwards is None else backwards)
        elif node.runs:
            lines.append(BoxLine(_ran(node.runs)))
        return [*lines, *self.said_of(id, node.id)]

    def said_of(self, id: str, node: int) -> list[BoxLine]:
        """Thread or device of a box, the value of its colour, and the number of hidden edges."""
        return [*self._ran_at([node]), *self._measured(id)]

    def _ran_at(self, nodes: Sequence[int]) -> list[BoxLine]:
        words = self.lanes.words(nodes)
        return [BoxLine(words)] if words else []

    def _measured(self, id: str) -> list[BoxLine]:
        """The value of its colour, if it is no time, and the number of hidden edges."""
        lines = [BoxLine(self.heat.words[id])] if id in self.heat.words else []
        if self.hidden.get(id):
            edges = plural(self.hidden[id], "edge")
            lines.append(BoxLine(f"⋯ {edges} to {self.nouns.node}s not shown"))
        return lines


def _ran(runs: tuple[NodeRun, ...]) -> str:
    """As in "ran 3rd, 12.4 µs"; for several backwards, the number of runs and total time."""
    spent = duration(sum(run.self_ns for run in runs if run.self_ns != NONE))
    if len(runs) == 1:
        return f"ran {ordinal(runs[0].position)}, {spent}"
    return f"ran {len(runs)} times, {spent}"


def _ran_in(node: GraphNode, backwards: Sequence[int]) -> list[BoxLine]:
    """One line for each backward, as in "backward 1: ran 3rd, 12.4 µs"."""
    if len(backwards) > MOST_BACKWARDS:
        ran = [_ran(node.runs)] if node.runs else []
        return [BoxLine(", ".join([f"in {len(backwards)} backwards", *ran]))]
    runs = {run.backward: run for run in node.runs}
    return [
        BoxLine(
            f"backward {each}{f': {_ran((runs[each],))}' if each in runs else ''}", backward=each
        )
        for each in backwards
    ]


def _in_backwards(backwards: Sequence[int]) -> list[BoxLine]:
    if len(backwards) > MOST_BACKWARDS:
        return [BoxLine(f"in {len(backwards)} backwards")]
    return [BoxLine(f"backward {each}", backward=each) for each in backwards]


def source_lines(site: Site) -> list[BoxLine]:
    lines = [BoxLine(site.place, Tone.SITE)] if site.place else []
    if site.text:
        lines.append(BoxLine(shorten(site.text, CODE_LENGTH), Tone.CODE))
    return lines


def meta_line(meta: TensorMeta) -> BoxLine:
    """As in "[5, 4] float32"."""
    return BoxLine(f"{shape(meta.shape)} {meta.dtype}".strip())


def _tooltip(node: GraphNode) -> tuple[str, ...]:
    parts = [f"{node.unique} (node {node.id})"]
    if node.sequence_nr != NONE:
        parts.append(f"sequence_nr {node.sequence_nr}")
    if node.module:
        parts.append(f"module {node.module}")
    if node.given:
        parts.append(f"with {node.given}")
    if node.site.place:
        parts.append(f"{node.site.place}: {node.site.text}")
    if node.leaf and node.leaf.guessed:
        parts.append("named after the variable on its source line")
    return tuple(parts)
