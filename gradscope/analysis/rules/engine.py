"""Rules about errors and deviations in the engine's work."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Evidence, Severity, known_rows
from gradscope.analysis.identity.names import node_made_at, node_names
from gradscope.analysis.identity.sites import at, own_site, site_of, site_of_row
from gradscope.analysis.program.endings import EXCEPTION, WENT_ON, ended_by_will, went_on
from gradscope.analysis.program.raised import explained
from gradscope.analysis.rules.graphs.saved_values import freed_graph, modified_in_place
from gradscope.analysis.rules.loop.switches import gradients_left_off, inference_tensors
from gradscope.analysis.rules.ownership import replaced_parameter
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.cuts.no_history import no_history
from gradscope.trace.schema import NONE, Error, Finding, GraphTask, Node
from gradscope.trace.schema.tables import Order
from gradscope.trace.trace import Trace

OTHERS = (
    modified_in_place, freed_graph, gradients_left_off, inference_tensors, no_history,
    replaced_parameter,
)  # fmt: skip
"""Rules that report errors more precisely than GS301 does."""

PAGE = "docs/engine/errors.md#"
"""Part of the last line of the messages of gradscope's engine: runtime/core/errors/declare.py."""
UNEXPLAINED = "the exception passed through code that was being recorded"
READ_ON = "read the message; the trace holds everything up to the exception"


@rule("GS301", "exception", Severity.ERROR, needs="graph")
def exception(trace: Trace) -> Iterator[Found]:
    """The program raised an exception while it was being recorded.

    The finding names the node that was running, the line of the forward pass that created it, and
    the line that called backward. Where another rule knows the cause, that rule reports the
    exception instead. An exception that the program caught is a note; only one that ended the
    program is an error. An exit, Ctrl-C or `--stop-on` is not reported.

    Bad:
        x = torch.ones(3, requires_grad=True)
        x.register_hook(lambda grad: grad.norm().item())
        x.sum().backward()

    Good:
        x = torch.ones(3, requires_grad=True)
        x.register_hook(lambda grad: print(grad.norm().item()))
        x.sum().backward()
    """
    told: set[str] = set()
    elsewhere = {
        (evidence.table, evidence.id)
        for other in OTHERS
        for found in other(trace)
        for evidence in found.evidence
        if evidence.table in ("event", "finding")
    }
    for error in trace.events(Error):
        # One exception passes through every backward that is nested around it.
        if error.message not in told:
            told.add(error.message)
            if ("event", error.seq) not in elsewhere and not ended_by_will(trace, error):
                yield _of_event(trace, error)
    for row in trace.rows(Finding):
        if row.kind == EXCEPTION and not any(message in row.message for message in told):
            told.add(row.message)
            if ("finding", row.id) in elsewhere:
                continue
            site = own_site(trace, row.stack)
            raised = site_of(trace, row.stack)
            inside = f", inside {raised}" if raised != site else ""
            message, facts, remedy = _told(row.message)
            more = explained(trace, row.message, site)
            yield Found(
                message=f"The program raised {message.removesuffix('.')}{at(site)}{inside}",
                site=(more and more.site) or site,
                evidence=(Evidence("finding", row.id),),
                why=_joined(more.why if more else "", facts) or UNEXPLAINED,
                fix=(more.fix if more else "") or remedy or READ_ON,
            )


@rule("GS304", "order-deviation")
def order_deviation(trace: Trace) -> Iterator[Found]:
    """PyTorch ran the nodes of a backward in another order than its scheduling rules predict.

    The observed order of the nodes is compared with the order that follows from the graph. Where
    the two differ, gradscope infers nothing more about that backward: neither the engine's
    dependency counts nor its queue. Either something changed the graph while it ran, or this
    version of PyTorch schedules differently from what gradscope assumes.
    """
    for task in trace.rows(GraphTask):
        if task.order == Order.OTHERWISE:
            ran, foretold = task.otherwise if len(task.otherwise) == 2 else (NONE, NONE)
            called = site_of(trace, task.stack)
            yield Found(
                message=f"PyTorch ran {_node(trace, ran)} before {_node(trace, foretold)}; its "
                "scheduling rules predict the reverse",
                site=called,
                evidence=known_rows(("graph_task", task.id), ("node", ran), ("node", foretold)),
                why=f"the backward called{at(called)} is shown as observed: its dependency counts, "
                "ready queue and gradient buffers are not inferred",
                fix="if the program does not change its graph in a hook, please report this with "
                "the trace",
            )


def _of_event(trace: Trace, error: Error) -> Found:
    called, made = (
        site_of_row(trace, kind, id) for kind, id in ((GraphTask, error.task), (Node, error.node))
    )
    known = trace.table(Node).has(error.node)
    where = node_names(trace).title(error.node) if known else "a backward"
    made_at = f", created at {made}," if made.place else ""
    message, facts, remedy = _told(error.message)
    caught = went_on(trace, error)
    reached = f"the backward called{at(called) or ' at an unrecorded line'} reached it"
    more = None if remedy else explained(trace, error.message, made if made.place else called)
    return Found(
        message=f"{where}{made_at} raised {error.type}: {message}{WENT_ON if caught else ''}",
        site=(more and more.site) or (made if made.place else called),
        evidence=known_rows(("event", error.seq), ("node", error.node), ("graph_task", error.task)),
        why=_joined(more.why, reached) if more else facts or reached,
        fix=remedy
        or (more.fix if more else "")
        or "follow the message; `gradscope render --around "
        f"{error.node if error.node != NONE else 'NODE'}` shows the graph there",
        severity=Severity.NOTE if caught else None,
    )


def _node(trace: Trace, node: int) -> str:
    return node_made_at(trace, node) if trace.table(Node).has(node) else "an AccumulateGrad"


def _joined(first: str, then: str) -> str:
    if not (first and then):
        return first or then
    return f"{first}. {then}" if then[0].isupper() else f"{first}; {then}"


def _told(message: str) -> tuple[str, str, str]:
    """First line of a message; for an error of gradscope's engine also its facts and its fix."""
    first, *more = message.strip().split("\n")
    if not more or PAGE not in more[-1]:
        return first, "", ""
    return first, " ".join(more[:-1]), more[-1]
