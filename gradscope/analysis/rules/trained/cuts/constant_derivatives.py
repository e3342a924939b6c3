"""Derivatives of derivatives that have no graph, and are used next to terms that have one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at, site_of
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.rules.registry import Found
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Frame, GraphTask, Node
from gradscope.trace.table import Table
from gradscope.trace.trace import Trace

NAME = re.compile(r"^(\w+)\s*=[^=].*\bgrad\(")
COMBINES = ("add", "sub", "rsub", "mul", "div")

STEPS = 2
"""In how many steps a derivative must be used."""

FEW = 8
"""Number of backwards of a line that are checked: a loop repeats itself."""


def constant_derivatives(trace: Trace, told: set[str]) -> Iterator[Found]:
    """Gradients of a gradient with a graph, taken without one, that terms with a graph use.

    A first derivative without a graph may be meant, as in first-order meta-learning. One of a
    derivative that was taken with create_graph=True is the last of a differential equation.
    """
    training, tasks, nodes = trace.once(Training), trace.table(GraphTask), trace.table(Node)
    inner = ~tasks["accumulate_grad"] & (tasks["parent"] == NONE)
    with_graph = inner & tasks["create_graph"]
    made = np.stack((tasks["begin"][with_graph], tasks["end"][with_graph]))
    for stack in distinct(tasks["stack"][inner & ~tasks["create_graph"]]).tolist():
        its = tasks.take(np.flatnonzero(inner & (tasks["stack"] == stack))[:FEW])
        if any(task.create_graph or not _differentiates(nodes, task, made) for task in its):
            continue
        site = site_of(trace, stack)
        if site.place not in told and not _of_parameters(training, its):
            used = _used(trace, stack)
            if len(used) >= STEPS:
                told.add(site.place)
                yield _found(trace, stack, its[0].id, used[0])


def _differentiates(nodes: Table[Node], task: GraphTask, made: NDArray[np.int64]) -> bool:
    """Whether a backward ran nodes that a backward with create_graph had created."""
    times = (nodes.row(each).t for each in {*task.needed, *task.roots} if nodes.has(each))
    return any(((made[0] <= t) & (t <= made[1])).any() for t in times)


def _of_parameters(training: Training, tasks: list[GraphTask]) -> bool:
    """Whether the gradients are those of parameters, as for a Hessian of a loss."""
    nodes = training.trace.table(Node)
    its = {each for task in tasks for each in task.inputs if nodes.has(each)}
    return any(training.held.intersection(nodes.row(each).inputs) for each in its)


def _used(trace: Trace, stack: int) -> list[int]:
    """The calls, one of each step, that combine the gradient with a term that has a graph."""
    calls, site = trace.once(Calls), site_of(trace, stack)
    name = NAME.match(code_of(site.text))
    if not name:
        return []
    reads = re.compile(rf"(?<![\w.]){name[1]}\b(?!\s*\.(?:detach|data|item)|\s*=[^=])")
    functions = {(row.file, row.line): row.function for row in trace.rows(Frame)}
    stacks = [
        each
        for each in distinct(calls.ops["stack"]).tolist()
        if (line := site_of(trace, each)).file == site.file
        and line.line > site.line
        and functions.get((line.file, line.line)) == functions.get((site.file, site.line))
        and reads.search(code_of(line.text))
    ]
    found: dict[int, int] = {}
    for each in calls.with_tensors(*COMBINES):
        learned = [one for one in calls.inputs(each) if calls.needs_grad(one)]
        if calls.stack(each) in stacks and len(learned) == 1 and calls.ops["node"][each] != NONE:
            found.setdefault(int(calls.ops["step"][each]), int(each))
    return [*found.values()]


def _found(trace: Trace, stack: int, task: int, used: int) -> Found:
    calls, site = trace.once(Calls), site_of(trace, stack)
    name = NAME.match(code_of(site.text))
    what = f"`{name[1]}`" if name else "it"
    return Found(
        message=f"{what}, computed{at(site)}, has no graph (create_graph=True is missing), so it "
        f"is a constant for the loss that uses it{at(calls.site(used))}",
        site=site,
        evidence=(Evidence("graph_task", task), Evidence("op", calls.id(used))),
        why="the gradient from which it was computed has a graph, as has the other operand there: "
        "the backward of the loss trains what leads to these, and not the second derivative",
        fix="pass create_graph=True to `autograd.grad` there, or detach() it to show that it is "
        "a constant",
        certainty=Certainty.INFERRED,
    )
