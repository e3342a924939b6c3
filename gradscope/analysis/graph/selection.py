"""Selection of nodes: of a step or backward, around a node, or on the way to one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.critical_path import critical_path
from gradscope.analysis.identity.backwards import backward_numbered, backwards
from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD
from gradscope.analysis.identity.names import find_nodes
from gradscope.analysis.identity.steps import step_ids
from gradscope.analysis.lookups import Ids, Links, links
from gradscope.analysis.timing.durations import own_ns
from gradscope.errors import EmptyTraceError, UnknownNameError
from gradscope.trace.schema import Edge, GraphTask, Node, NodeBegin
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of nodes: everything, limited by each of these options."""

    step: int | None = None  # the step's number
    backward: int | None = None  # the number of the backward
    around: str | None = None
    hops: int = 2
    path_to: str | None = None  # only nodes that a gradient passes on its way to this node or leaf
    critical: bool = False  # only the critical path
    until: int | None = None  # with `step`: the number of the last of several steps

    def steps(self, trace: Trace) -> list[int]:
        """The ids of the selected steps; none if it is not limited to steps."""
        return [] if self.step is None else step_ids(trace, self.step, self.until)

    @property
    def words(self) -> str:
        """The selected steps, as in "step 5" or "steps 0 to 2,856"."""
        return (
            f"step {self.step}" if self.until is None else f"steps {self.step:,} to {self.until:,}"
        )


@dataclass(frozen=True, slots=True)
class Selected:
    """The selected nodes, nearest to the start of the backward, or to the focus, first."""

    nodes: tuple[int, ...]
    focus: tuple[int, ...]  # the nodes named by `around` or `path_to`
    tasks: frozenset[int] | None  # tasks whose runs count; None: all


def select(trace: Trace, selection: Selection) -> Selected:
    """The nodes of a selection. Raises UnknownNameError for unknown names."""
    scope = _scope(trace, selection)
    tasks = _tasks(trace, selection)
    forward, backward = adjacency(trace)
    focus: tuple[int, ...] = ()
    if selection.path_to is not None:
        focus = _found(trace, selection.path_to, scope)
        scope = frozenset(reach(focus, backward, scope))
    if selection.critical:
        order = _critical(trace, scope, tasks)
        scope = frozenset(order)
    else:
        order = _in_reach_order(_roots(trace, scope), forward, scope)
    if selection.around is None:
        return Selected(order, focus, tasks)
    focus = _found(trace, selection.around, scope)
    nodes = _around(trace, focus, selection.hops, (forward, backward), scope)
    return Selected(nodes, focus, tasks)


def _found(trace: Trace, name: str, scope: frozenset[int]) -> tuple[int, ...]:
    found = tuple(node for node in find_nodes(trace, name) if node in scope)
    if not found:
        raise UnknownNameError(
            f"{name!r} is not among the nodes selected by --step, --task, --path-to or --critical; "
            "leave these out, or select others"
        )
    return found


def _critical(trace: Trace, scope: frozenset[int], tasks: frozenset[int] | None) -> tuple[int, ...]:
    nodes = np.array(sorted(scope), np.int64)
    spent = own_ns(trace, nodes, tasks)
    if not spent.any():
        raise EmptyTraceError(
            "no times of these nodes were recorded, so there is no critical path; record it with "
            "--level engine"
        )
    own = dict(zip(nodes.tolist(), spent.tolist(), strict=True))
    return tuple(critical_path(trace, own, own))


def adjacency(trace: Trace) -> tuple[Links, Links]:
    """The edges by their node and by their next node."""
    edges = trace.table(Edge)
    return links(edges["node"], edges["next"]), links(edges["next"], edges["node"])


def reach(starts: Iterable[int], onward: Links, within: frozenset[int] | None = None) -> list[int]:
    """All reachable nodes, breadth first; only through these nodes, if given."""
    order = list(dict.fromkeys(starts))
    seen = set(order)
    for node in order:  # grows while it is read
        for target in onward.of(node):
            if target not in seen and (within is None or target in within):
                seen.add(target)
                order.append(target)
    return order


def _scope(trace: Trace, selection: Selection) -> frozenset[int]:
    nodes = trace.table(Node)
    chosen: set[int] = set(nodes["id"].tolist())
    if selection.backward is not None:
        chosen &= nodes_of_task(trace, backward_numbered(trace, selection.backward))
    if selection.step is not None:
        chosen &= _nodes_of_step(trace, selection.steps(trace))
    return frozenset(chosen)


def _tasks(trace: Trace, selection: Selection) -> frozenset[int] | None:
    if selection.backward is not None:
        return frozenset([backward_numbered(trace, selection.backward).id])
    if selection.step is None:
        return None
    tasks = trace.table(GraphTask)
    of_step = np.isin(tasks["step"], selection.steps(trace))
    return frozenset(tasks["id"][of_step].tolist())


def nodes_of_task(trace: Trace, task: GraphTask) -> set[int]:
    """The nodes that a graph task reaches from its roots, or ran."""
    begins = trace.table(NodeBegin)
    ran = begins["node"][begins["task"] == task.id]
    onward, _ = adjacency(trace)
    return {*reach(task.roots, onward), *ran.tolist()}


def _nodes_of_step(trace: Trace, steps: list[int]) -> set[int]:
    """The nodes created during the steps, and the leaves their gradients flow to."""
    nodes, edges = trace.table(Node), trace.table(Edge)
    made: Ids = nodes["id"][np.isin(nodes["step"], steps)]
    targets: Ids = edges["next"][np.isin(edges["node"], made)]
    return {*made.tolist(), *(targets[np.isin(targets, leaf_nodes(trace))]).tolist()}


def leaf_nodes(trace: Trace) -> Ids:
    """The ids of all AccumulateGrad nodes."""
    nodes = trace.table(Node)
    names = nodes["name"]
    texts = [text for text in set(names.tolist()) if trace.text(text) == ACCUMULATE_GRAD]
    ids: Ids = nodes["id"][np.isin(names, texts)]
    return ids


def _roots(trace: Trace, scope: frozenset[int]) -> list[int]:
    """The start of a picture: roots of graph tasks, then nodes without incoming edges."""
    tasks = [node for task in backwards(trace) for node in task.roots if node in scope]
    nodes, edges = trace.table(Node), trace.table(Edge)
    led_to = set(edges["next"][np.isin(edges["node"], sorted(scope))].tolist())
    unled = [node for node in nodes["id"].tolist() if node in scope and node not in led_to]
    return [*tasks, *unled]


def _in_reach_order(starts: list[int], onward: Links, scope: frozenset[int]) -> tuple[int, ...]:
    reached = [node for node in reach(starts, onward) if node in scope]
    rest = sorted(scope.difference(reached))  # only cycles, which engines do not create
    return (*reached, *rest)


def _around(
    trace: Trace,
    focus: tuple[int, ...],
    hops: int,
    adjacent: tuple[Links, Links],
    scope: frozenset[int],
) -> tuple[int, ...]:
    # A leaf used a hundred times would pull all its uses in: go to leaves, never through them.
    dead_ends = set(leaf_nodes(trace).tolist()).difference(focus)
    found = list(focus)
    seen = set(found)
    frontier = found
    for _ in range(hops):
        if not frontier:
            break
        steps = (link.of(node) for node in frontier if node not in dead_ends for link in adjacent)
        near = dict.fromkeys(node for targets in steps for node in targets)
        frontier = [node for node in near if node in scope and node not in seen]
        seen.update(frontier)
        found.extend(frontier)
    return tuple(found)
