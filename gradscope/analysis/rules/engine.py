"""Rules about what the engine did."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Evidence, Severity
from gradscope.analysis.names import node_names
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.sites import Site, site_of
from gradscope.trace.run import Trace
from gradscope.trace.schema import NONE, Error, Finding, GraphTask, Node

EXCEPTION = "exception"


@rule("GS301", "exception", Severity.ERROR)
def exception(trace: Trace) -> Iterator[Found]:
    """Something raised while it was being recorded.

    The finding names the node that was running, the line of the forward pass that made it, and
    the line that called backward.

    Bad:
        y = x.exp()
        y.add_(1)
        y.sum().backward()

    Good:
        y = x.exp()
        z = y + 1
        z.sum().backward()
    """
    told: set[str] = set()
    for error in trace.events(Error):
        # One exception passes through every backward that is nested around it.
        if error.message not in told:
            told.add(error.message)
            yield _of_event(trace, error)
    for row in trace.rows(Finding):
        if row.kind == EXCEPTION and not any(message in row.message for message in told):
            told.add(row.message)
            site = site_of(trace, row.stack)
            yield Found(
                message=f"The program raised {_first_line(row.message)}{_at(site)}",
                site=site,
                evidence=(Evidence("finding", row.id),),
                why="the exception passed through what was being recorded",
                fix="read the message; the trace holds everything up to it",
            )


def _of_event(trace: Trace, error: Error) -> Found:
    called = Site()
    if trace.table(GraphTask).has(error.task):
        called = site_of(trace, trace.table(GraphTask).row(error.task).stack)
    made = Site()
    where = "a backward"
    if trace.table(Node).has(error.node):
        made = site_of(trace, trace.table(Node).row(error.node).stack)
        where = node_names(trace).title(error.node)
    made_at = f", made at {made}," if made.place else ""
    return Found(
        message=f"{where}{made_at} raised {error.type}: {_first_line(error.message)}",
        site=made if made.place else called,
        evidence=tuple(
            Evidence(table, id)
            for table, id in (
                ("event", error.seq),
                ("node", error.node),
                ("graph_task", error.task),
            )
            if id != NONE
        ),
        why=f"it was reached by the backward called{_at(called) or ' in a place not recorded'}",
        fix="the message says what to change; `gradscope render --around "
        f"{error.node if error.node != NONE else 'NODE'}` shows the graph there",
    )


def _at(site: Site) -> str:
    return f" at {site}" if site.place else ""


def _first_line(message: str) -> str:
    return message.strip().partition("\n")[0]
