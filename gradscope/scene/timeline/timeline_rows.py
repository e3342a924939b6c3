"""A line for each node that a backward ran: when it was ready and ran, and its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD, leaf
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.timing.schedule import Execution
from gradscope.scene.choices import SortBy
from gradscope.scene.kinds import NodeKind, kind_of
from gradscope.scene.readable import duration
from gradscope.trace.schema import NONE, Node, Thread
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One run of a node."""

    position: int
    title: str
    kind: NodeKind
    ready: int  # NONE when not recorded
    begin: int
    end: int
    waited: str
    ran: str
    after: str  # the node that sent the last gradient it waited for; "" for a root
    site: Site
    failed: bool
    thread: str = ""  # the thread that ran it, if there are several


def rows_of(
    trace: Trace, executions: Sequence[Execution], sort: SortBy, limit: int
) -> tuple[TimelineRow, ...]:
    """The first `limit` rows of one backward; 0 for all."""
    ordered = sorted(executions, key=_slowest_first) if sort is SortBy.TIME else executions
    shown = ordered[:limit] if limit else ordered
    looks = trace.once(_Looks)
    threads = _threads(trace, executions)
    return tuple(
        TimelineRow(
            position=run.position,
            title=looks.title(run.node),
            kind=looks.kind(run.node),
            ready=run.ready,
            begin=run.begin,
            end=run.end,
            waited=duration(run.queued_ns),
            ran="did not end" if run.end == NONE else duration(run.self_ns),
            after=looks.called(run.waited_for[-1] if run.waited_for else NONE),
            site=looks.site(run.node),
            failed=run.failed,
            thread=threads.get(run.thread, ""),
        )
        for run in shown
    )


def _slowest_first(run: Execution) -> tuple[bool, int, int]:
    """Sort key: runs that did not end come first."""
    return run.end != NONE, -run.self_ns, run.position


def _threads(trace: Trace, executions: Sequence[Execution]) -> dict[int, str]:
    """The names of the threads of these runs, if there are several."""
    used = {run.thread for run in executions}
    if len(used) < 2:
        return {}
    names = {row.id: row.name for row in trace.rows(Thread)}
    return {id: names.get(id) or f"thread {id}" for id in used}


class _Looks:
    """Names, kinds and source lines of nodes."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._nodes = trace.table(Node)
        names = node_names(trace)
        ids = self._nodes.array("id").tolist()
        self._at: dict[int, int] = {id: at for at, id in enumerate(ids)}
        self._texts = self._nodes.texts("name")
        self._counts, self._ordinals = names.counts.tolist(), names.ordinals.tolist()
        self._stacks = self._nodes.array("stack").tolist()
        self._leaves: dict[int, str] = {}  # by tensor
        self._kinds = {text: kind_of(text) for text in set(self._texts)}

    def called(self, node: int) -> str:
        """The name that `NodeNames.of` returns; "" for NONE."""
        at = self._at.get(node)
        if at is None:
            return "" if node == NONE else f"node {node}"
        return (
            self._texts[at] if self._counts[at] == 1 else f"{self._texts[at]}#{self._ordinals[at]}"
        )

    def title(self, node: int) -> str:
        """The unique name of a node; "weight.grad" for a leaf with a name."""
        at = self._at.get(node)
        if at is not None and self._texts[at] == ACCUMULATE_GRAD:
            name = self._leaf(at)
            if name:
                return f"{name}.grad"
        return self.called(node)

    def _leaf(self, at: int) -> str:
        inputs = self._nodes.ragged("inputs")[at]
        tensor = int(inputs[0]) if len(inputs) else NONE
        if tensor not in self._leaves:
            found = leaf(self._trace, tensor)
            self._leaves[tensor] = found.name if found else ""
        return self._leaves[tensor]

    def kind(self, node: int) -> NodeKind:
        at = self._at.get(node)
        return kind_of("") if at is None else self._kinds[self._texts[at]]

    def site(self, node: int) -> Site:
        at = self._at.get(node)
        return site_of(self._trace, NONE if at is None else self._stacks[at])
