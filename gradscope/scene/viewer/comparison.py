"""The comparison of a page's trace with an earlier one: new, gone, slower."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gradscope.analysis.findings import Finding
from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.select import select_calls
from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.identity.fingerprints import shortened
from gradscope.analysis.identity.leaves import leaf_of
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.likeness import ChangeKind
from gradscope.analysis.likeness.aspects import Both, Section
from gradscope.analysis.likeness.compare import Comparison, compare
from gradscope.analysis.likeness.same_calls import same_calls
from gradscope.analysis.lookups import Ids
from gradscope.analysis.report import inspect
from gradscope.analysis.timing.durations import node_runs, own_ns
from gradscope.scene.differences import differences_scene
from gradscope.scene.viewer.before import before_tables
from gradscope.scene.viewer.changed import TwoTimes, by_row, change_tables
from gradscope.scene.viewer.nodes import PageNodes
from gradscope.scene.viewer.summary import summary
from gradscope.scene.viewer.text_columns import Json, Table, Texts, ints, shown
from gradscope.trace.schema import NONE, Node
from gradscope.trace.trace import Trace

UNKNOWN, SAME, NEW = range(3)
"""States of a node: no backward reached it; both traces have it; only this one has it."""


class Against:
    """A trace compared with an earlier one. `names`: those of both, the earlier first."""

    def __init__(self, scope: PageNodes, earlier: PageNodes, names: tuple[str, str]) -> None:
        self._scope, self._earlier, self._names = scope, earlier, names
        self._comparison: Comparison = compare(earlier.trace, scope.trace)
        self._times = TwoTimes(of_both(self._comparison))

    def tables(self, texts: Texts) -> dict[str, Table]:
        """Tables: the state of each node, what is gone, and what was compared."""
        differences = differences_scene(
            self._comparison, (self._earlier.trace, self._scope.trace), self._names
        )
        sections = self._comparison.sections
        differing = [each.first for each in sections if each.first is not None]
        shown_ = [each for each in (differences.first, *differences.others) if each is not None]
        sides = [each.sides for each in shown_]
        scopes = self._earlier, self._scope
        return {
            "compared": self._nodes(),
            "gone": self._gone(texts),
            **change_tables(self._comparison.changes, scopes, texts),
            **before_tables(self._earlier, texts),
            "sections": {
                "kind": texts.column(str(each.kind) for each in sections),
                "of": texts.column(each.of for each in sections),
                "differs": texts.column(_counts(each) for each in sections),
            },
            "differences": {
                "head": texts.column(each.head for each in shown_),
                "one": texts.column(one.text for one, _ in sides),
                "one_source": texts.column(one.source for one, _ in sides),
                "other": texts.column(other.text for _, other in sides),
                "other_source": texts.column(other.source for _, other in sides),
                "node": self._scope.rows(ints(each.other.node for each in differing)),
            },
        }

    def facts(self, findings: Sequence[Finding]) -> Json:
        """The facts about the whole comparison. `findings`: those of the page's trace."""
        before = inspect(self._earlier.trace).findings
        ids = shortened([each.id for each in before])
        known, still = {each.id for each in before}, {each.id for each in findings}
        whole = differences_scene(
            self._comparison, (self._earlier.trace, self._scope.trace), self._names
        )
        return {
            "names": [shown(name) for name in self._names],
            "about": [shown(each) for each in whole.traces],
            "summary": shown(
                summary((self._earlier, self._scope), self._names, self._comparison.same)
            ),
            "verdict": whole.verdict,
            "notes": [shown(note) for note in whole.notes],
            "timed": all(_timed(each) for each in (self._earlier, self._scope)),
            "times": self._times.facts(),
            "new_findings": [row for row, each in enumerate(findings) if each.id not in known],
            "gone_findings": [
                shown(f"{each.message} ({each.rule} {each.slug} #{ids[each.id]})")
                for each in before
                if each.id not in still
            ],
        }

    def calls(self, drawn: Table, part: Selection, texts: Texts) -> dict[str, Table]:
        """The same tables for the calls of the forward graph, followed by data."""
        one, other = (each.trace.once(ForwardCalls) for each in (self._earlier, self._scope))
        same = same_calls(self._earlier.trace, self._scope.trace, self._comparison.same)
        place_of = {id: place for place, id in enumerate(other.id.tolist())}
        ids, is_data = (np.asarray(drawn[name]) for name in ("id", "is_leaf"))
        places = ints(place_of.get(each, NONE) for each in ids.tolist())
        places[is_data != 0] = NONE
        then = np.where(places == NONE, NONE, np.append(same.in_other, NONE)[places])
        status = np.where(places == NONE, UNKNOWN, np.where(then == NONE, NEW, SAME))
        took, takes = (np.where(of.end == NONE, NONE, of.end - of.begin) for of in (one, other))
        row_of = {place: row for row, place in enumerate(places.tolist()) if place != NONE}
        gone = select_calls(self._earlier.trace, part, everything=False).places
        gone = gone[same.in_one[gone] == NONE]
        following = np.append(same.in_one, NONE)
        rows = [_row_behind(place, following, row_of) for place in gone.tolist()]
        sites = [site_of(self._earlier.trace, int(one.stack[place])) for place in gone.tolist()]
        return {
            "compared_calls": {
                "status": status,
                "ran": np.append(took, NONE)[then],
                "now": np.where(then == NONE, NONE, np.append(takes, NONE)[places]),
            },
            "gone_calls": {
                "title": texts.column(one.of(place) for place in gone.tolist()),
                "is_leaf": np.zeros(len(gone), np.int64),
                "place": texts.column(site.place for site in sites),
                "code": texts.column(site.text for site in sites),
                "ran": took[gone],
                "node": ints(rows),
            },
        }

    def _nodes(self) -> Table:
        """Whether a node existed before, as which row, and its times; NONE where unknown."""
        same, size = self._comparison.same, len(self._scope.ids)
        status = np.full(size, UNKNOWN, np.int64)
        new = self._scope.rows(same.only_other)
        status[new[new != NONE]] = NEW
        rows = self._scope.rows(same.other)
        here = rows != NONE
        rows, one, other = rows[here], same.one[here], same.other[here]
        status[rows] = SAME
        plain = tuple(
            _spent(scope, ids) if _timed(scope) else np.full(len(ids), NONE)
            for scope, ids in ((self._earlier, one), (self._scope, other))
        )
        times = self._times.columns(one, other, (plain[0], plain[1]))
        then = {"then": self._earlier.rows(one), **times}
        return {"status": status, **by_row(then, rows, size)}

    def _gone(self, texts: Texts) -> Table:
        """Nodes that only the earlier trace has, each with the node in its place now."""
        trace, only = self._earlier.trace, self._comparison.same.only_one
        gone = only[self._earlier.rows(only) != NONE]
        names, table = node_names(trace), trace.table(Node)
        nodes = [table.row(int(id)) for id in gone.tolist()]
        leaves = [leaf_of(trace, node) for node in nodes]
        sites = [site_of(trace, node.stack) for node in nodes]
        titles = [
            leaf.title if leaf else names.of(node.id)
            for node, leaf in zip(nodes, leaves, strict=True)
        ]
        spent = _spent(self._earlier, gone) if _timed(self._earlier) else np.full(len(gone), NONE)
        return {
            "title": texts.column(titles),
            "is_leaf": self._earlier.beside[self._earlier.rows(gone)].astype(np.int64),
            "place": texts.column(site.place for site in sites),
            "code": texts.column(site.text for site in sites),
            "ran": spent,
            "node": self._scope.rows(
                _in_place_of(gone, self._comparison, (trace, self._scope.trace))
            ),
            "row": self._earlier.rows(gone),
        }


def _row_behind(place: int, following: Ids, row_of: dict[int, int]) -> int:
    """The row of the first call after a place that both have and the page shows, or NONE."""
    for each in following[place + 1 :].tolist():
        if each in row_of:
            return row_of[each]
    return NONE


def _in_place_of(gone: Ids, comparison: Comparison, traces: tuple[Trace, Trace]) -> Ids:
    """The node of the later trace in the place of each: what replaced it, or its neighbor.

    That is the one created next in the same step or, at the end of a step, the one before.
    """
    same = comparison.same
    steps = [_step_of(trace) for trace in traces]
    replaced = [each for each in comparison.changes if each.kind is ChangeKind.REPLACED]
    instead = {node: each.nodes for each in replaced for node in each.gone}
    order = np.argsort(same.one, kind="stable")
    one, other = same.one[order].tolist(), same.other[order].tolist()
    found = []
    for node, at in zip(
        gone.tolist(), np.searchsorted(same.one[order], gone).tolist(), strict=True
    ):
        step = steps[0](node)
        new = [each for each in instead.get(node, ()) if steps[1](each) == step]
        near = [place for place in (at, at - 1) if 0 <= place < len(one)]
        near.sort(key=lambda place: steps[0](one[place]) != step)
        found.append(new[0] if new else other[near[0]] if near else NONE)
    return ints(found)


def _step_of(trace: Trace) -> Callable[[int], int]:
    """The number of the step of a node."""
    table, numbers = trace.table(Node), trace.once(step_numbers)
    return lambda node: numbers.get(int(table["step"][table.index(node)]), NONE)


def _spent(scope: PageNodes, nodes: Ids) -> Ids:
    """The own time of these nodes, in any order, within the scope."""
    order = np.argsort(nodes, kind="stable")
    found = np.empty(len(nodes), np.int64)
    found[order] = own_ns(scope.trace, nodes[order], frozenset(scope.tasks.tolist()))
    return found


def _timed(scope: PageNodes) -> bool:
    return bool(np.any(node_runs(scope.trace).self_ns != NONE))


def of_both(comparison: Comparison) -> Both:
    """Both traces of a comparison, matched."""
    assert comparison.both is not None
    return comparison.both


def _counts(section: Section) -> str:
    """As in "3 nodes that only the second has"; "same" where nothing differs."""
    return "; ".join(f"{number:,} {what}" for what, number in section.counts) or "same"
