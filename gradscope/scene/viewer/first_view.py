"""What the page shows first: the summary, the node at which it opens, of a long run some steps.

# Note [Some steps]
A page of all steps of a long run would take a browser too long, and the time to make it grows with
the steps. So it has steps that follow each other, up to a number of nodes: those around the step at
which the page opens. Findings, times by line and the summary are those of the whole trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradscope.analysis.findings import Severity
from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.identity.names import find_nodes
from gradscope.analysis.identity.steps import steps
from gradscope.analysis.lookups import Ids
from gradscope.analysis.report import Report
from gradscope.analysis.timing.spans import spans
from gradscope.scene.readable import plural
from gradscope.scene.report import verdict
from gradscope.scene.timeline.waits import wait_notes
from gradscope.scene.viewer.nodes import PageNodes
from gradscope.scene.viewer.text_columns import Json, Table, shown
from gradscope.trace.schema import NONE, Node, Phase, Step
from gradscope.trace.trace import Trace

LEVEL_GRAPH = (
    "level graph: the order, times and states of nodes are not recorded; use --level engine"
)

MOST_NODES = 20_000
"""Most nodes of a page that has more than one step."""


def some_steps(trace: Trace, selection: Selection, report: Report) -> Selection:
    """The steps that the page of a long run shows; the selection if it is not long.

    See Note [Some steps].
    """
    if selection.step is not None or selection.backward is not None:
        return selection
    made = _steps_of_nodes(trace, trace.table(Node).array("id"))
    known = np.array([step.number for step in steps(trace)], np.int64)
    numbers, many = np.unique(made[np.isin(made, known)], return_counts=True)
    if many.sum() <= MOST_NODES or len(numbers) < 2:
        return selection
    before = np.concatenate(([0], np.cumsum(many)))
    middle = int(np.searchsorted(numbers, _step_of_interest(trace, selection, report)))
    middle = min(middle, len(numbers) - 1)
    last_start = np.searchsorted(before, before[-1] - MOST_NODES)
    first = min(np.searchsorted(before, before[middle] - MOST_NODES // 2), last_start, middle)
    end = max(np.searchsorted(before, before[first] + MOST_NODES, "right") - 1, middle + 1)
    return replace(selection, step=int(numbers[first]), until=int(numbers[end - 1]))


def _steps_of_nodes(trace: Trace, nodes: Ids) -> Ids:
    """The number of the step in which each node was created; NONE if in none."""
    table, of_trace = trace.table(Node), trace.table(Step)
    if not len(of_trace):
        return np.full(len(nodes), NONE, np.int64)
    at = of_trace.positions(table.array("step")[table.positions(nodes)])
    return np.where(at == NONE, NONE, of_trace.array("number")[at])


def _step_of_interest(trace: Trace, selection: Selection, report: Report) -> int:
    """The step of the node to open at, or of the worst finding; else 0."""
    if selection.around is not None:
        nodes = np.array(find_nodes(trace, selection.around)[:1], np.int64)
        return max(_steps_of_nodes(trace, nodes).tolist(), default=0)
    found = (each for each in report.findings if each.severity >= Severity.WARNING)
    return next((each.steps[0] for each in found if each.steps), 0)


def said_of_steps(trace: Trace, selection: Selection) -> tuple[str, ...]:
    """A sentence about the steps that the page leaves out; none if it shows what was asked for."""
    if selection.until is None:
        return ()
    many = len({step.number for step in steps(trace)})
    said = (
        f"the run is long, so the page has only {selection.words} of {many:,} recorded steps; its "
        "findings, summary and times by line are those of all; --step N shows another step"
    )
    return (said,)


def summary_facts(trace: Trace, report: Report) -> Json:
    """The verdict, the times of the parts of the program, and the peak of saved memory."""
    facts = report.summary
    optimizers = sum(
        span.end - span.begin
        for span in spans(trace)
        if span.phase is Phase.OPTIMIZER and span.end != NONE
    )
    return {
        "verdict": shown(verdict(report)),
        "steps": facts.steps,
        "ranks": facts.ranks,
        "waiting": wait_notes(report.waits),
        "backwards": facts.backwards,
        "times": [facts.forward_ns, facts.backward_ns, max(optimizers, facts.optimizer_ns)],
        "peak": facts.saved_peak_bytes,
    }


def opening(scope: PageNodes, report: Report, findings: Table, backwards: Table) -> Json:
    """The node and the backward to open at: those of the worst finding that is on the page.

    NONE: the first backward, and no node.
    """
    focus = scope.rows(np.array(scope.focus, np.int64)).tolist()
    if focus:
        return {"node": focus[0], "backward": NONE, "finding": NONE}
    steps, ranks = np.asarray(backwards["step"]), np.asarray(backwards["rank"])
    nodes = np.asarray(findings["node"])
    for row, finding in enumerate(report.findings):
        if finding.severity < Severity.WARNING:
            break
        chosen = np.isin(steps, finding.steps)
        if finding.ranks:
            chosen &= ranks == finding.ranks[0]
        of_step = np.flatnonzero(chosen).tolist()
        backward = of_step[0] if of_step else NONE
        if nodes[row] != NONE or backward != NONE:
            return {"node": int(nodes[row]), "backward": backward, "finding": row}
    return {"node": NONE, "backward": NONE, "finding": NONE}


def limits(trace: Trace, report: Report, forward: Json, tables: dict[str, Table]) -> list[Json]:
    """What this recording does not contain, and what was inferred; one sentence each."""
    return [shown(each) for each in dict.fromkeys(_limits(trace, report, forward, tables))]


def _limits(trace: Trace, report: Report, forward: Json, tables: dict[str, Table]) -> Iterator[str]:
    yield from trace.notes
    pushed = np.asarray(tables["runs"]["pushed"])
    if not len(np.asarray(tables["nodes"]["id"])):
        yield "nothing required a gradient: there is no backward, only the forward graph"
    elif not len(pushed):
        yield LEVEL_GRAPH
    elif not np.any(pushed != NONE):
        yield "when nodes became ready is not recorded: they go from waiting to running"
    if not len(np.asarray(tables["values"]["node"])):
        yield "values of tensors are not recorded; use --level values"
    inferred = trace.meta.get("inferred", [])
    if isinstance(inferred, list) and "push" in inferred:
        yield (
            "PyTorch reports which nodes ran and when; queues, counts and sums are inferred from "
            "the rules of its engine"
        )
    if isinstance(forward, dict):
        told = forward.get("notes") or [forward.get("absent")]
        yield from (f"forward graph: {each}" for each in told if each)
    if report.unchecked:
        yield (
            f"{plural(len(report.unchecked), 'rule')} could not be checked; `gradscope inspect` "
            "lists them"
        )
    yield from (fault.words for fault in report.faults)
