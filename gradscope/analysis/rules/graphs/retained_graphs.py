"""Rules about graphs that stay after a backward: traversed again, on `.grad`, in a cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.leaves import fill_leaves
from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, Edge, GraphTask, HookAct, Node, NodeBegin
from gradscope.trace.trace import Trace

MANY = 3
"""Least number of backwards, or hooks, of one line."""


@rule("GS603", "walked-again")
def walked_again(trace: Trace) -> Iterator[Found]:
    """Each backward traverses what earlier ones traversed, and more each time.

    `retain_graph=True` silences the error of a second backward. If a state, or a sum of losses, is
    carried on without `.detach()`, the graph grows with it: each backward goes back to the
    beginning, and adds the same gradients once more.

    Bad:
        w = torch.ones(3, requires_grad=True)
        total = 0.0
        for _ in range(5):
            total = total + (w * w).sum()
            total.backward(retain_graph=True)

    Good:
        w = torch.ones(3, requires_grad=True)
        total = 0.0
        for _ in range(5):
            total = total + (w * w).sum()
        total.backward()
    """
    again = _again(trace)
    for stack, tasks in _outermost(trace).items():
        counts = [again.get(task.id, 0) for task in sorted(tasks, key=lambda each: each.begin)]
        grows = _longest_growth(counts)
        if stack != NONE and grows >= MANY:
            yield _walked(trace, tasks, max(counts), grows)


def _outermost(trace: Trace) -> dict[int, list[GraphTask]]:
    """Calls of `backward` that are not inside another, by their lines."""
    tasks = (row for row in trace.rows(GraphTask) if row.parent == NONE and not row.inputs)
    return grouped(tasks, lambda task: task.stack)


def _again(trace: Trace) -> Mapping[int, int]:
    """How many nodes of each graph task had run in an earlier one, without those of leaves."""
    runs, nodes = trace.table(NodeBegin), trace.table(Node)
    leaf = np.isin(runs["node"], nodes["id"][fill_leaves(trace)])
    node, task = runs["node"][~leaf], runs["task"][~leaf]
    order = np.lexsort((runs["seq"][~leaf], node))
    node, task = node[order], task[order]
    first = np.ones(len(node), bool)
    first[1:] = node[1:] != node[:-1]
    starts = np.flatnonzero(first)
    began = np.repeat(task[starts], np.diff(np.append(starts, len(node))))
    return Counter(task[task != began].tolist())


def _longest_growth(counts: list[int]) -> int:
    """How many consecutive backwards ran more nodes again than the one before."""
    longest = here = 0
    for before, count in zip([0, *counts], counts, strict=False):
        here = here + 1 if count > before else 0
        longest = max(longest, here)
    return longest


def _walked(trace: Trace, tasks: list[GraphTask], most: int, grows: int) -> Found:
    site, last = site_of(trace, tasks[0].stack), max(tasks, key=lambda each: each.begin)
    carried = _crossing(trace, last)
    through = f", through what is carried on at {carried}" if carried.place else ""
    return Found(
        message=f"The graph grows: the backward at {site} traverses again what earlier ones "
        f"traversed{through}",
        site=site,
        evidence=tuple(Evidence("graph_task", task.id) for task in tasks[-MANY:]),
        why=f"{grows + 1} backwards of this line ran more nodes a second time than the one "
        f"before them, up to {most}; `retain_graph` keeps these nodes, and adds their gradients "
        "again",
        fix="cut what is carried on: `state = state.detach()` before the step that uses it; or sum "
        "the losses, and call backward once, without `retain_graph=True`",
    )


def _crossing(trace: Trace, task: GraphTask) -> Site:
    """The newest line whose node leads to one that was created before the last backward."""
    nodes, edges, runs = trace.table(Node), trace.table(Edge), trace.table(NodeBegin)
    tasks = np.sort(trace.table(GraphTask)["begin"])
    place = int(np.searchsorted(tasks, task.begin)) - 1
    if place < 0:
        return Site()
    since = tasks[place]
    ran = nodes["id"][np.isin(nodes["id"], runs["node"][runs["task"] == task.id])]
    times = dict(zip(nodes["id"].tolist(), nodes["t"].tolist(), strict=True))
    new = ran[np.isin(ran, nodes["id"][nodes["t"] >= since])]
    old = set(ran.tolist()) - set(new.tolist())
    leaves = set(nodes["id"][fill_leaves(trace)].tolist())
    inside = np.isin(edges["node"], new)
    crossing = [
        source
        for source, target in zip(
            edges["node"][inside].tolist(), edges["next"][inside].tolist(), strict=True
        )
        if target in old and target not in leaves
    ]
    newest = max(crossing, key=times.__getitem__, default=NONE)
    return Site() if newest == NONE else site_of(trace, nodes.row(newest).stack)


@rule("GS604", "graph-on-grad", needs="graph")
def graph_on_grad(trace: Trace) -> Iterator[Found]:
    """`backward(create_graph=True)` leaves gradients in `.grad` that have their own graph.

    A parameter then refers to its gradient, whose graph refers to the parameter: a cycle that keeps
    the whole graph alive until `.grad` is set to None. A second backward also adds to that `.grad`.

    Bad:
        w = torch.ones(3, requires_grad=True)
        for _ in range(3):
            w.grad = None
            (w ** 3).sum().backward(create_graph=True)
            (w.grad ** 2).sum().backward()

    Good:
        w = torch.ones(3, requires_grad=True)
        for _ in range(3):
            w.grad = None
            loss = (w ** 3).sum()
            grad, = torch.autograd.grad(loss, w, create_graph=True)
            (loss + (grad ** 2).sum()).backward()
    """
    for stack, every in _outermost(trace).items():
        tasks = [task for task in every if task.create_graph and task.accumulate_grad]
        if len(tasks) > 1 and stack != NONE:
            site = site_of(trace, stack)
            yield Found(
                message=f"backward(create_graph=True) at {site} leaves a graph on every `.grad`",
                site=site,
                evidence=tuple(Evidence("graph_task", task.id) for task in tasks),
                why=f"{len(tasks)} backwards of this line accumulated with create_graph: each "
                "parameter refers to its gradient, whose graph refers to the parameter, a leak; a "
                "later backward adds to the same `.grad`",
                fix="write `grads = torch.autograd.grad(loss, parameters, create_graph=True)`, "
                "which does not change `.grad`, and call backward once, on the loss plus penalty",
            )


@rule("GS605", "hook-holds-its-tensor")
def hook_holds_its_tensor(trace: Trace) -> Iterator[Found]:
    """A hook uses the tensor that it is registered on, which keeps the tensor and its graph alive.

    The tensor's node holds the hook, the hook's closure holds the tensor, and the tensor holds its
    node: PyTorch never frees such a cycle, since it passes through C++.

    Bad:
        w = torch.ones(3, requires_grad=True)
        def watched(h):
            h.register_hook(lambda grad: print(grad.norm() / h.norm()))
            return h
        for _ in range(4):
            watched(w * 2).sum().backward()

    Good:
        w = torch.ones(3, requires_grad=True)
        def watched(h):
            size = h.detach().norm()
            h.register_hook(lambda grad: print(grad.norm() / size))
            return h
        for _ in range(4):
            watched(w * 2).sum().backward()
    """
    acts = trace.once(Acts)
    holds = (act for act in acts.of(HookAct) if act.facts.holds)
    for same in grouped(holds, acts.place).values():
        if len(same) >= MANY:
            site = acts.site(same[0])
            called = acts.sites(same[0])[1:2]
            by = f" (called at {called[0]})" if called else ""
            yield Found(
                message=f"A hook registered at {site}{by} holds the tensor it is registered on",
                site=site,
                evidence=tuple(Evidence("act", each.id) for each in same),
                why=f"`{same[0].facts.hook}` has the tensor in its closure, in {len(same)} "
                "calls; the tensor's node holds the hook: a cycle through C++, which PyTorch "
                "never frees, with the whole graph before it",
                fix="compute what the hook needs from the tensor first, as in "
                "`size = h.detach().norm()`; or call `handle.remove()` after the backward",
                certainty=Certainty.CERTAIN,
            )
