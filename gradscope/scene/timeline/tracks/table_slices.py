"""Each table of a trace as slices: operations, nodes, hooks, backwards, spans, steps."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gradscope.analysis.graph.selection import leaf_nodes
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.identity.leaves import leaf_of
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.identity.steps import step_numbers, steps
from gradscope.analysis.lookups import Ids, paired
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.timing.durations import Runs
from gradscope.analysis.timing.schedule import hook_calls
from gradscope.analysis.timing.spans import spans
from gradscope.scene.timeline.tracks.modules import (
    RunsInOrder,
    backward_in_order,
    forward_in_order,
    module_runs,
    module_slices,
    without_ends,
)
from gradscope.scene.timeline.tracks.slices import Slices, Sort, TrackWords
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, GraphTask, HookBegin, Node, Op, Phase, Push
from gradscope.trace.trace import Trace


class TrackNames:
    """Look-ups for many slices: names, lines, modules, numbers of steps and backwards."""

    def __init__(self, trace: Trace, words: TrackWords) -> None:
        self.trace, self.words = trace, words
        self._modules = module_names(trace)
        self._steps, self._backwards = step_numbers(trace), backward_numbers(trace)

    def names(self, strings: Ids) -> Ids:
        known = {id: self.words.add(self.trace.text(id)) for id in distinct(strings).tolist()}
        return _mapped(strings, known)

    def places(self, stacks: Ids) -> dict[str, Ids]:
        """The lines that stacks end at."""
        sites = {id: site_of(self.trace, id) for id in distinct(stacks).tolist()}
        add = self.words.add
        return {
            "file": _mapped(stacks, {id: add(site.file) for id, site in sites.items()}),
            "line": _mapped(stacks, {id: site.line or NONE for id, site in sites.items()}),
            "code": _mapped(stacks, {id: add(site.text) for id, site in sites.items()}),
        }

    def modules(self, modules: Ids) -> Ids:
        known = {id: self.words.add(self._modules.get(id, "")) for id in distinct(modules).tolist()}
        return _mapped(modules, known)

    def steps(self, steps: Ids) -> Ids:
        return _mapped(steps, {id: self._steps.get(id, NONE) for id in distinct(steps).tolist()})

    def backwards(self, tasks: Ids) -> Ids:
        known = {id: self._backwards.get(id, NONE) for id in distinct(tasks).tolist()}
        return _mapped(tasks, known)


def _mapped(ids: Ids, known: dict[int, int]) -> Ids:
    return np.array([known[id] for id in ids.tolist()], np.int64)


def op_slices(known: TrackNames) -> tuple[Slices, Slices]:
    """Slices of operations, and of the modules they belong to."""
    table = known.trace.table(Op)
    order = np.argsort(table["begin"], kind="stable")
    thread, begin, end = (table[name][order] for name in ("thread", "begin", "end"))
    if without_ends(known.trace):
        end = begin
    task, step, module = (table[name][order] for name in ("task", "step", "module"))
    found = Slices(
        thread=thread,
        begin=begin,
        end=end,
        sort=np.full(len(order), int(Sort.OP)),
        name=known.names(table["name"][order]),
        of=table["id"][order],
        about={
            "module": known.modules(module),
            **known.places(table["stack"][order]),
            "step": known.steps(step),
            "backward": known.backwards(task),
        },
    )
    return found, _of_modules(known, forward_in_order(known.trace), "")


def _of_modules(known: TrackNames, ran: RunsInOrder, ending: str) -> Slices:
    found = module_slices(known.trace, module_runs(known.trace, ran), ending, known.words)
    found.about["step"] = known.steps(found.about["step"])
    return found


def node_slices(known: TrackNames, runs: Runs) -> tuple[Slices, Slices]:
    """Slices of nodes that ran, and of the modules they belong to."""
    trace, nodes = known.trace, known.trace.table(Node)
    at = nodes.positions(runs.node)

    def of(column: str) -> Ids:
        if not len(nodes):
            return np.full(len(at), NONE, np.int64)
        return np.where(at == NONE, NONE, nodes[column][at])

    step, module = known.steps(of("step")), of("module")
    found = Slices(
        thread=runs.thread,
        begin=runs.begin,
        end=runs.end,
        sort=np.full(len(at), int(Sort.NODE)),
        name=known.names(of("name")),
        of=runs.node,
        about={
            **_called(known, runs.node, at),
            "module": known.modules(module),
            **known.places(of("stack")),
            "step": step,
            "backward": known.backwards(runs.task),
            "waited_ns": _waited(trace, runs),
            "failed": runs.failed.astype(np.int64),
        },
    )
    return found, _of_modules(known, backward_in_order(trace, runs), " backward")


def _called(known: TrackNames, ran: Ids, at: Ids) -> dict[str, Ids]:
    """The unique name of each node that ran, and the name of its leaf."""
    trace, nodes, words = known.trace, known.trace.table(Node), known.words
    names = node_names(trace)
    texts = trace.texts(nodes["name"])
    counts, ordinals = names.counts.tolist(), names.ordinals.tolist()
    leaves = {}
    for row in nodes.take(nodes.positions(leaf_nodes(trace))):
        leaf = leaf_of(trace, row)
        leaves[row.id] = leaf.title if leaf else ""
    unique = [
        "" if p == NONE or counts[p] == 1 else f"{texts[p]}#{ordinals[p]}" for p in at.tolist()
    ]
    return {
        "node": words.column(unique),
        "leaf": words.column(leaves.get(node, "") for node in ran.tolist()),
    }


def _waited(trace: Trace, runs: Runs) -> Ids:
    """How long each run waited in its queue; NONE where no push was recorded."""
    pushes = trace.table(Push)
    if not len(pushes):
        return np.full(len(runs.node), NONE, np.int64)
    at = paired((pushes["task"], pushes["node"]), (runs.task, runs.node))
    return np.where(at == NONE, NONE, np.maximum(runs.begin - pushes["t"][at], 0))


def hook_slices(known: TrackNames) -> Slices:
    trace, words = known.trace, known.words
    tasks = distinct(trace.table(HookBegin)["task"]).tolist()
    calls = [call for task in tasks for call in hook_calls(trace, task)]
    kinds = ["hook" if c.kind is None else c.kind.name.lower().replace("_", " ") for c in calls]
    return Slices(
        thread=_ints(call.thread for call in calls),
        begin=_ints(call.begin for call in calls),
        end=_ints(call.end for call in calls),
        sort=np.full(len(calls), int(Sort.HOOK)),
        name=words.column(
            f"{call.name} ({kind} hook)" if call.name else f"{kind} hook"
            for call, kind in zip(calls, kinds, strict=True)
        ),
        of=_ints(call.node for call in calls),
        about={
            "file": words.column(call.site.file for call in calls),
            "line": _ints(call.site.line or NONE for call in calls),
            "code": words.column(call.site.text for call in calls),
            "replaced": _ints(int(call.replaced) for call in calls),
        },
    )


def backward_slices(known: TrackNames) -> Slices:
    """Slices of backwards, on the threads that called them."""
    trace = known.trace
    table, numbers = trace.table(GraphTask), backward_numbers(trace)
    names = [f"backward {numbers.get(row.id, row.id)}" for row in trace.rows(GraphTask)]
    return Slices(
        thread=table.array("thread"),
        begin=table.array("begin"),
        end=table.array("end"),
        sort=np.full(len(table), int(Sort.BACKWARD)),
        name=known.words.column(names),
        of=table.array("id"),
        about={
            **known.places(table.array("stack")),
            "step": known.steps(table.array("step")),
            "backward": known.backwards(table.array("id")),
            "failed": _ints(int(bool(row.error)) for row in trace.rows(GraphTask)),
        },
    )


def span_slices(known: TrackNames) -> Slices:
    """Slices of the program's spans, optimizer steps, collectives and gradscope's own work."""
    found = spans(known.trace)
    own = [each.phase is Phase.OWN_WORK for each in found]
    return Slices(
        thread=_ints(each.thread for each in found),
        begin=_ints(each.begin for each in found),
        end=_ints(each.end for each in found),
        sort=_ints(int(Sort.OWN_WORK if is_own else Sort.SPAN) for is_own in own),
        name=known.words.column(each.title or "(unnamed)" for each in found),
        of=_ints(each.id for each in found),
        about={"step": known.steps(_ints(each.step for each in found))},
    )


def step_slices(known: TrackNames) -> Slices:
    """Slices of steps, which belong to no thread."""
    found = steps(known.trace)
    return Slices(
        thread=np.full(len(found), NONE, np.int64),
        begin=_ints(step.begin for step in found),
        end=_ints(step.end for step in found),
        sort=np.full(len(found), int(Sort.STEP)),
        name=known.words.column(f"step {step.number}" for step in found),
        of=_ints(step.id for step in found),
        about={"step": _ints(step.number for step in found)},
    )


def _ints(values: Iterable[int]) -> Ids:
    return np.array([*values], np.int64)
