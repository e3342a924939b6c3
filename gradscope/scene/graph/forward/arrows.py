"""The arrows of a forward graph: tensors between calls, and saved values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from gradscope.analysis.graph.forward.facts import CallFacts
from gradscope.analysis.graph.forward.flows import Flow
from gradscope.analysis.graph.forward.forward_columns import ForwardColumns
from gradscope.scene.graph.arrows import between_folded
from gradscope.scene.graph.picture import Arrow
from gradscope.scene.graph.placing import Placing
from gradscope.scene.kinds import Form
from gradscope.scene.readable import plural, shape
from gradscope.trace.schema import NONE

MOST_NAMED = 4
"""Largest number of results that the label of an arrow lists."""


def arrows(
    placing: Placing, columns: ForwardColumns, calls: Mapping[int, CallFacts]
) -> Iterator[Arrow]:
    """The arrows between drawn boxes; several tensors between two boxes share one arrow.

    If no inputs of calls were recorded, arrows show the order in which the calls started.
    """
    if not columns.flows:
        names = [placing.name(box) for box in placing.folding.boxes]
        yield from (Arrow(tail, head, "", Form.ORDER) for tail, head in pairwise(names))
    yield from _tensors(placing, columns, calls)
    yield from _folded(placing, columns)
    drawn = {placing.name(box) for box in placing.folding.boxes}
    for call in calls.values():
        if placing.options.saved and f"{placing.letter}{call.place}" in drawn:
            for saved in call.saved:
                yield Arrow(f"{placing.letter}{call.place}", f"s{saved.id}", "", Form.SAVED)


def _tensors(
    placing: Placing, columns: ForwardColumns, calls: Mapping[int, CallFacts]
) -> Iterator[Arrow]:
    letter = placing.letter
    drawn = {placing.name(box) for box in placing.folding.boxes}
    between: dict[tuple[str, str], list[Flow]] = defaultdict(list)
    for flow, (user, source) in zip(columns.flows, columns.ids, strict=True):
        if source == NONE or f"{letter}{user}" not in drawn:
            continue
        use = placing.uses.get((user, source))
        tail = use.box if use else f"{letter}{source}"
        if use or tail in drawn:
            between[tail, f"{letter}{user}"].append(flow)
    for (tail, head), flows in between.items():
        yield Arrow(tail, head, _label(placing, flows, calls), Form.OPERATION)


def _label(placing: Placing, flows: list[Flow], calls: Mapping[int, CallFacts]) -> str:
    """The label: which output, how often it is passed, how that was inferred."""
    parts = []
    maker = calls.get(flows[0].maker)
    outputs = dict.fromkeys(flow.output for flow in flows if flow.output != NONE)
    if maker and len(outputs) > MOST_NAMED:
        return plural(len(outputs), "tensor")
    if maker and len(maker.results) > 1:
        parts += [f"out {output}" for output in outputs]
    if maker and placing.options.tensors:
        metas = (maker.results[flow.output] for flow in flows if flow.output != NONE)
        parts += [shape(meta.shape) for meta in metas if meta]
    tensors = {flow.tensor for flow in flows}
    if len(flows) > len(tensors):
        parts.append(f"{len(flows)} times")
    if any(flow.shared for flow in flows):
        parts.append("shares memory")
    parts += [kept_as(flow.kept) for flow in flows if flow.kept and flow.maker != NONE]
    return " · ".join(dict.fromkeys(parts))


def kept_as(slot: str) -> str:
    """The label of an input that is inferred from a saved value of the node."""
    return f"saved as {slot}"


def _folded(placing: Placing, columns: ForwardColumns) -> Iterator[Arrow]:
    """Arrows to or from folded boxes, one for each pair of boxes."""
    boxes, graph = placing.folding.boxes, columns.graph
    users, sources, drawn = between_folded(placing)
    tensors: dict[tuple[int, int], set[int]] = defaultdict(set)
    of_edge = _tensors_of_edges(columns)
    for user, source, tail, head in zip(
        users[drawn].tolist(), sources[drawn].tolist(),
        graph.id[graph.tail[drawn]].tolist(), graph.id[graph.head[drawn]].tolist(), strict=True,
    ):  # fmt: skip
        tensors[user, source] |= of_edge[tail, head]
    for (user, source), between in tensors.items():
        label = plural(len(between), "tensor") if len(between) > 1 else ""
        ends = (placing.name(boxes[source]), placing.name(boxes[user]))
        yield Arrow(*ends, label, Form.FOLDED)


def _tensors_of_edges(columns: ForwardColumns) -> dict[tuple[int, int], set[int]]:
    found: dict[tuple[int, int], set[int]] = defaultdict(set)
    for flow, ids in zip(columns.flows, columns.ids, strict=True):
        found[ids].add(flow.tensor)
    return found
