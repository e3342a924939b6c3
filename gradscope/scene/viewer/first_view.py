"""What the page shows first: the summary of the trace, and the node at which it opens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Severity
from gradscope.analysis.report import Report
from gradscope.analysis.timing.spans import spans
from gradscope.scene.readable import plural
from gradscope.scene.report import verdict
from gradscope.scene.timeline.waits import wait_notes
from gradscope.scene.viewer.nodes import PageNodes
from gradscope.scene.viewer.text_columns import Json, Table, shown
from gradscope.trace.schema import NONE, Phase
from gradscope.trace.trace import Trace

LEVEL_GRAPH = (
    "level graph: the order, times and states of nodes are not recorded; use --level engine"
)


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
