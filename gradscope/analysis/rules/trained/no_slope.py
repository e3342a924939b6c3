"""Rules about backwards without effect: through step functions, or no further than a leaf."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, few_tensors
from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD
from gradscope.analysis.identity.sites import at, site_of
from gradscope.analysis.lookups import as_written
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.switched_off import named, off_before
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Edge, GraphTask, Node, RequiresGradAct
from gradscope.trace.trace import Table, Trace

STEPS = ("Round", "Floor", "Ceil", "Trunc", "Sign", "Sgn", "Heaviside", "FloorDivide")
DRAWS = ("Normal", "Bernoulli", "Poisson")
FLAT = (*STEPS, *DRAWS)
"""Prefixes of names of nodes whose derivative is zero wherever it is defined."""


@rule("GS408", "zero-slope")
def zero_slope(trace: Trace) -> Iterator[Found]:
    """Parameters get only zero gradients: all paths pass through rounding or sampling.

    `round`, `floor`, `ceil`, `trunc` and `sign` are step functions: their derivative is zero. For
    random samples of `torch.normal` or `bernoulli`, PyTorch also uses a derivative of zero.

    Bad:
        layer = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        torch.round(layer(torch.ones(3, 2))).sum().backward()
        optimizer.step()

    Good:
        layer = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        out = layer(torch.ones(3, 2))
        (out + (torch.round(out) - out).detach()).sum().backward()
        optimizer.step()
    """
    nodes = trace.table(Node)
    flat = _flat(trace)
    if not flat:
        return
    training = trace.once(Training)
    following = trace.once(following_nodes)
    roots = {root for task in trace.rows(GraphTask) for root in task.roots}
    sloped = reach(roots, following, flat)
    by_line: dict[str, list[tuple[int, set[int]]]] = defaultdict(list)
    for node in as_written(nodes, flat & reach(roots, following, frozenset())):
        behind = reach({node}, following, frozenset()) - sloped
        lost = _leaves(nodes, behind) & training.held
        if lost:
            by_line[site_of(trace, nodes.row(node).stack).place].append((node, lost))
    for several in by_line.values():
        node = several[0][0]
        row, lost = nodes.row(node), set().union(*(each for _, each in several))
        site = site_of(trace, row.stack)
        yield Found(
            message=f"{training.named(lost)} get{'' if len(lost) > 1 else 's'} only zero gradients:"
            f" every path there leads through {row.name}{at(site)}",
            site=site,
            evidence=(Evidence("node", node), *few_tensors(trace, lost)),
            why="PyTorch treats drawn values as constants: their derivative is zero"
            if row.name.startswith(DRAWS)
            else "it is a step function: its derivative is zero wherever it is defined",
            fix="draw noise and compute with it: `mu + std * torch.randn_like(std)`"
            if row.name.startswith(DRAWS)
            else "use a straight-through estimator: `x + (torch.round(x) - x).detach()`",
            certainty=Certainty.INFERRED,
        )


def _leaves(nodes: Table[Node], some: Collection[int]) -> set[int]:
    """The leaves whose gradients these nodes accumulate."""
    rows = [nodes.row(each) for each in some if nodes.has(each)]
    return {row.inputs[0] for row in rows if row.name == ACCUMULATE_GRAD and row.inputs}


def _flat(trace: Trace) -> frozenset[int]:
    nodes = trace.table(Node)
    names = distinct(nodes["name"])
    texts = dict(zip(names.tolist(), trace.texts(names), strict=True))
    wanted = [
        number
        for number, text in texts.items()
        if any(text.startswith(f"{each}Backward") for each in FLAT)
    ]
    return frozenset(nodes["id"][np.isin(nodes["name"], wanted)].tolist())


def following_nodes(trace: Trace) -> Mapping[int, list[int]]:
    """The nodes to which each node sends its gradients."""
    edges = trace.table(Edge)
    found: dict[int, list[int]] = defaultdict(list)
    for node, after in zip(edges["node"].tolist(), edges["next"].tolist(), strict=True):
        if after != NONE:
            found[node].append(after)
    return found


def reach(
    roots: Collection[int], following: Mapping[int, list[int]], not_past: Collection[int]
) -> set[int]:
    """The nodes that backwards from these roots reach, if they stop at some nodes."""
    seen = set(roots)
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        for after in following.get(node, ()) if node not in not_past else ():
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return seen


@rule("GS409", "leaf-as-loss")
def leaf_as_loss(trace: Trace) -> Iterator[Found]:
    """A backward began and ended at a leaf: `requires_grad_()` does not restore a graph.

    Bad:
        model = torch.nn.Linear(2, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(torch.ones(4, 2)).argmax(1).float().mean().requires_grad_()
        loss.backward()
        optimizer.step()

    Good:
        model = torch.nn.Linear(2, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(torch.ones(4, 2)).softmax(1).mean()
        loss.backward()
        optimizer.step()
    """
    training = trace.once(Training)
    nodes = trace.table(Node)
    by_line: dict[str, list[GraphTask]] = defaultdict(list)
    begun = training.begun_at_leaves if training.stepped else []
    ran_others = set(trace.table(GraphTask)["parent"].tolist())  # in hooks of such leaves
    for task in trace.table(GraphTask).take(np.array(begun, np.int64)):
        rows = [nodes.row(root) for root in task.roots if nodes.has(root)]
        leaves = {row.inputs[0] for row in rows if row.inputs}
        if leaves and not leaves & training.held and task.id not in ran_others:
            by_line[site_of(trace, task.stack).place].append(task)
    for tasks in by_line.values():
        called = site_of(trace, tasks[0].stack)
        leaf = nodes.row(tasks[0].roots[0]).inputs[0]
        asked = [act for act in training.acts.of(RequiresGradAct) if leaf in act.tensors]
        site = training.acts.site(asked[0]) if asked else called
        off = off_before(training, [task.begin for task in tasks])
        there = f"or in {named(training, off)}" if off else "no_grad"
        first = f": check {named(training, off)} first" if off else ""
        said = f": requires_grad was set on it{at(site)}, where it had no graph" if asked else ""
        yield Found(
            message=f"The backward{at(called)} began at a leaf and reached no parameter{said}",
            site=site,
            evidence=(
                Evidence("graph_task", tasks[0].id),
                *(Evidence("act", act.id) for act in (*asked[:1], *off)),
            ),
            why=f"{len(tasks)} backward{'s' if len(tasks) > 1 else ''} like this; what was "
            f"computed before (argmax, comparisons, item(), {there}) has no derivative",
            fix=f"remove `requires_grad_()`, and fix what cuts the graph before it{first}",
        )
