"""The contents of each box of a forward graph's picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gradscope.analysis.graph.forward.calls import ForwardCalls, InPlaceWrite
from gradscope.analysis.graph.forward.facts import CallFacts, Data
from gradscope.analysis.lookups import Ids
from gradscope.scene.graph.blocks.drawn import boxes_of, folded_box, use_lines
from gradscope.scene.graph.blocks.outline import NodeBlock
from gradscope.scene.graph.blocks.titles import Titles
from gradscope.scene.graph.boxes import BoxMaker, meta_line, source_lines
from gradscope.scene.graph.forward.arrows import kept_as
from gradscope.scene.graph.picture import Box, BoxLine, Tone
from gradscope.scene.graph.placing import Placing, Use
from gradscope.scene.kinds import Form, NodeKind, kind_of, kind_of_call
from gradscope.scene.readable import byte_count, duration, plural, shape
from gradscope.trace.schema import NONE, Why

NO_NODES = BoxLine("no nodes")
WHY: dict[Why | None, str] = {
    Why.NO_GRAD: "no node: grad mode was off",
    Why.NO_INPUT_REQUIRES_GRAD: "no node: no input requires grad",
    Why.NOT_DIFFERENTIABLE: "no node: not differentiable",
    Why.DETACHED: "no node: detached",
    Why.INFERENCE: "no node: inference mode",
}
MOST_RESULTS, MOST_WRITES, MOST_KEPT = 2, 2, 4
"""Largest numbers of things that a box lists."""


@dataclass(frozen=True, slots=True)
class CallBoxes:
    """Creates the boxes of one picture."""

    placing: Placing
    maker: BoxMaker
    titles: Titles
    spent: Ids
    calls: Mapping[int, CallFacts]
    data: Mapping[int, Data]
    kept: Mapping[tuple[int, int], str]  # by call and data: the slot that saves it
    mixed: bool  # some calls made a node

    def all(self, calls: ForwardCalls) -> Iterator[Box]:
        """The boxes, each with its calls and the nodes that these created."""
        for box in boxes_of(self.placing, self._around, self._folded):
            if box.form in (Form.LEAF, Form.DATA, Form.SAVED):
                yield box
                continue
            places = list(box.nodes)
            nodes = tuple(node for node in calls.node[places].tolist() if node != NONE)
            more = (NO_NODES,) if self.mixed and not nodes and box.form is Form.FOLDED else ()
            ids = tuple(calls.id[places].tolist())
            yield replace(box, lines=(*box.lines, *more), nodes=nodes, calls=ids)

    def _folded(self, block: NodeBlock, group: str) -> Box:
        return folded_box(
            block, group, self.placing, self.maker, self.titles, self.spent, lambda _: ()
        )

    def _around(self, place: int, group: str) -> Iterator[Box]:
        """The boxes of a call, of its data inputs, and of saved values."""
        call = self.calls[place]
        for use in self.placing.uses_of.get(place, ()):
            shared = use.number == 0 and use.total > 1
            slot = self.kept.get((place, use.leaf), "")
            yield self._given(use, "" if shared else group, slot)
        yield self._call(f"{self.placing.letter}{place}", call, group)
        if self.placing.options.saved:
            for saved in call.saved:
                stale = saved.id in call.overwritten
                more = [BoxLine("modified since it was saved", Tone.ALARM)] if stale else []
                yield self.maker.saved(saved, call.node_name, call.node, group, more)

    def _call(self, id: str, call: CallFacts, group: str) -> Box:
        maker = self.maker
        marks = maker.marks.of([call.place])
        name, hash_mark, number = call.unique.rpartition("#")
        lines = (
            *maker.marks.lines(call.place),
            *source_lines(call.site),
            *_result_lines(call),
            *_write_lines(call),
            *_node_lines(call, mixed=self.mixed),
            *maker.said_of(id, call.place),
        )
        return Box(
            id=id,
            form=Form.OPERATION,
            title=call.name,
            ordinal=f"#{number}" if hash_mark and name == call.name else "",
            kind=kind_of(call.node_name.partition("#")[0])
            if call.node != NONE
            else (kind_of_call(call.name)),
            lines=lines,
            marks=marks,
            heat=maker.heat.of.get(id),
            group=group,
            tooltip=_tooltip(call),
            nodes=(call.place,),
            lane=maker.lanes.of([call.place]),
        )

    def _given(self, use: Use, group: str, slot: str) -> Box:
        data = self.data[use.leaf]
        lines = [meta_line(data.meta)] if data.meta else []
        lines += [BoxLine(kept_as(slot))] if slot else []
        tooltip = [f"tensor {data.tensor}"]
        if data.guessed:
            tooltip.append("named after the variable on its source line")
        return Box(
            id=use.box,
            form=Form.LEAF if data.parameter else Form.DATA,
            title=data.title,
            ordinal="",
            kind=NodeKind.LEAF if data.parameter else NodeKind.OTHER,
            lines=(*lines, *use_lines(use)),
            marks=(),
            heat=None,
            group=group,
            tooltip=tuple(tooltip),
            nodes=(),
        )


def _result_lines(call: CallFacts) -> list[BoxLine]:
    """The shape and dtype of its results, and its time."""
    took = [duration(call.ns)] if call.ns != NONE else []
    known = [meta for meta in call.results if meta]
    shapes = ", ".join(shape(meta.shape) for meta in known[:MOST_RESULTS])
    if len(known) == 1:
        shapes += f" {known[0].dtype}"
    if len(known) > MOST_RESULTS:
        shapes += f" and {plural(len(known) - MOST_RESULTS, 'more result', 'more results')}"
    parts = [each for each in (shapes, *took) if each]
    return [BoxLine(" · ".join(parts))] if parts else []


def _write_lines(call: CallFacts) -> list[BoxLine]:
    lines = [BoxLine(versions(name, write)) for name, write in call.writes[:MOST_WRITES]]
    if len(call.writes) > MOST_WRITES:
        lines.append(BoxLine(f"and {plural(len(call.writes) - MOST_WRITES, 'more write')}"))
    return lines


def versions(name: str, write: InPlaceWrite) -> str:
    """As in "weight: version 0 → 1"."""
    of = f"{name}: " if name else ""
    if NONE in (write.old, write.new):
        return f"{of}version unknown"
    return f"{of}version {write.old} → {write.new}"


def _node_lines(call: CallFacts, *, mixed: bool) -> list[BoxLine]:
    """The node it created and what that saves; or why it created none, if others did."""
    if call.node == NONE:
        return [BoxLine(WHY.get(call.why, "no node"))] if mixed else []
    if not call.saved:
        return [BoxLine(f"created {call.node_name}")]
    slots = ", ".join(saved.slot for saved in call.saved[:MOST_KEPT])
    more = ", …" if len(call.saved) > MOST_KEPT else ""
    packed = all(saved.id in call.packed for saved in call.saved)
    size = "packed by a hook" if packed else byte_count(sum(each.bytes for each in call.saved))
    lines = [BoxLine(f"{call.node_name} saves {slots}{more}: {size}")]
    stale = [saved.slot for saved in call.saved if saved.id in call.overwritten]
    if stale:
        lines.append(
            BoxLine(f"{', '.join(stale[:MOST_KEPT])}: modified since it was saved", Tone.ALARM)
        )
    return lines


def _tooltip(call: CallFacts) -> tuple[str, ...]:
    parts = [f"{call.unique} (call {call.id})"]
    if call.module:
        parts.append(f"module {call.module}")
    if call.inside:
        parts.append(f"{plural(call.inside, 'call')} inside it")
    if call.site.place:
        parts.append(f"{call.site.place}: {call.site.text}")
    return tuple(parts)
