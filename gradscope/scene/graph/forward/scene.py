"""The picture of a forward graph: data at the top, results below."""

from __future__ import annotations

from functools import partial

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.facts import calls_at, data_of
from gradscope.analysis.graph.forward.forward_columns import ForwardColumns, forward_columns
from gradscope.analysis.graph.forward.select import SelectedCalls, find_calls, select_calls
from gradscope.analysis.graph.selection import Selection
from gradscope.errors import EmptyTraceError, UsageError
from gradscope.scene.choices import ColorBy, GraphOf
from gradscope.scene.graph.arrows import edges_not_shown
from gradscope.scene.graph.blocks.folding import Folder, wishes
from gradscope.scene.graph.blocks.outline import Outline
from gradscope.scene.graph.blocks.regions import with_insides
from gradscope.scene.graph.blocks.structures import Structures
from gradscope.scene.graph.blocks.titles import Titles, frames
from gradscope.scene.graph.boxes import BoxMaker, Nouns
from gradscope.scene.graph.common_lines import shared_lines, without_lone_frames
from gradscope.scene.graph.forward.arrows import arrows
from gradscope.scene.graph.forward.boxes import CallBoxes
from gradscope.scene.graph.forward.marks import marks_of_calls
from gradscope.scene.graph.forward.words import during, notes_of, nothing
from gradscope.scene.graph.heat import Heat, heat_of_times
from gradscope.scene.graph.lanes import Lanes, devices_of
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import GraphScene, StructureEntry, occurring
from gradscope.scene.graph.placing import Placing
from gradscope.scene.graph.scope import DrawnSelection, scope_of_calls
from gradscope.trace.schema import NONE, Phase
from gradscope.trace.trace import Trace

NOUNS = Nouns("call", ("input tensor", "input tensors"))


def forward_scene(trace: Trace, options: GraphOptions) -> GraphScene:
    """The picture of the forward graph, or of the part that the options select."""
    calls = trace.once(ForwardCalls)
    scope, selected = _chosen(trace, options)
    columns = forward_columns(trace, selected)
    graph = columns.graph
    marks = marks_of_calls(calls, selected)
    outline = Outline(trace, graph, loops=not options.everything)
    asked = wishes(options, graph, selected.focus, marks.findings, partial(find_calls, trace))
    folder = Folder(graph, outline, asked, NOUNS.node)
    placing = Placing(options, graph, outline, folder, folder.fold(), "c")
    heat = _heat(options, columns, placing)
    hidden = edges_not_shown(placing)
    lanes = lanes_of_calls(trace, columns)
    maker = BoxMaker(options, calls, marks, heat, hidden, lanes, several=False, nouns=NOUNS)
    drawn = placing.nodes_drawn()
    facts = calls_at(trace, [id for id in drawn if id not in columns.data])
    data = data_of(trace, columns.data.values())
    titles = Titles(trace, graph, outline, folder.spent, during(trace))
    boxes = CallBoxes(
        placing, maker, titles, folder.spent, facts,
        {id: data[tensor] for id, tensor in columns.data.items()},
        {ids: flow.kept for ids, flow in zip(columns.ids, columns.flows, strict=True) if flow.kept},
        mixed=bool((calls.node[selected.places] != NONE).any()),
    )  # fmt: skip
    made = tuple(boxes.all(calls))
    groups = tuple(frames(made, placing.open_blocks, titles))
    all_boxes, framed, lines = shared_lines(*without_lone_frames(made, groups))
    structures: tuple[StructureEntry, ...] = ()
    if options.color_by is ColorBy.STRUCTURE:
        found = Structures(outline, graph)
        all_boxes, framed, structures = found.painted(made, all_boxes, framed, placing)
    kinds, forms, seen = occurring(all_boxes)
    scene = GraphScene(
        title=scope.title,
        notes=(*scope.notes, *notes_of(trace, selected, options), *placing.folding.notes),
        boxes=all_boxes,
        arrows=tuple(arrows(placing, columns, facts)),
        groups=framed,
        color_by=options.color_by,
        scale=heat.scale,
        kinds=kinds,
        forms=forms,
        marks=seen,
        lines=lines,
        lanes=lanes.titles,
        structures=structures,
        graph=GraphOf.FORWARD,
    )
    return with_insides(trace, scene, Phase.FORWARD, options)


def _chosen(trace: Trace, options: GraphOptions) -> tuple[DrawnSelection, SelectedCalls]:
    """The calls that are drawn. Raises EmptyTraceError if there are none."""
    calls = trace.once(ForwardCalls)
    choose = partial(
        select_calls,
        trace,
        everything=options.everything,
        with_node=options.graph is GraphOf.BOTH,
    )
    whole = choose(Selection())
    if not len(whole.places):
        raise EmptyTraceError(nothing(trace))
    scope = scope_of_calls(trace, options, calls.ops["step"][calls.rows[whole.places]])
    return scope, choose(scope.selection)


def _heat(options: GraphOptions, columns: ForwardColumns, placing: Placing) -> Heat:
    if options.color_by is ColorBy.GRAD:
        raise UsageError(
            "--color grad shows gradients, which calls do not have: with --graph forward use kind, "
            "time or structure"
        )
    if options.color_by in (ColorBy.KIND, ColorBy.STRUCTURE):
        return Heat()
    graph = columns.graph
    timed = graph.own_ns > 0
    if not timed.any():
        raise EmptyTraceError("this trace has no times of calls; record it with --level engine")
    spent = dict(zip(graph.id[timed].tolist(), graph.own_ns[timed].tolist(), strict=True))
    return heat_of_times(spent, placing.contents())


def lanes_of_calls(trace: Trace, columns: ForwardColumns) -> Lanes:
    """The threads or devices of calls."""
    calls, places = trace.once(ForwardCalls), columns.graph.id[~columns.graph.leaf]
    threads = calls.ops["thread"][calls.rows[places]]
    results = [calls.outputs[place] for place in places.tolist()]
    first = [each[0] if each else NONE for each in results]
    return Lanes(trace, places, threads, devices_of(trace, first))
