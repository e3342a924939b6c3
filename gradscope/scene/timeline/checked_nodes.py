"""Nodes whose gradients were computed again, in words and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gradscope.scene.readable import count, duration, plural
from gradscope.scene.table_scenes import TableColumn, TableScene
from gradscope.trace.trace import Trace

IN_WORDS = {
    "agrees": "agree",
    "kernel": "differ",
    "precision": "lost bits",
    "no formula": "no formula",
    "not finite": "not finite",
    "no time": "no time",
}
WORST_FIRST = ("kernel", "precision", "agrees", "not finite", "no formula", "no time")


class CheckedRun(NamedTuple):
    """One run of a node that was computed again."""

    kind: str
    line: str
    found: str
    input: str
    off: float
    allowed: float


def checked_words(trace: Trace) -> Iterator[str]:
    """The number of runs that `--check-nodes` computed again, and of those that it could not."""
    facts = trace.meta.get("checked_nodes")
    if not facts:
        return
    agree, differ = facts.get("agree", 0), facts.get("differ", 0)
    took = duration(facts.get("copying_ns", 0)), duration(facts.get("computing_ns", 0))
    said = f"{plural(agree + differ, 'run')} of nodes computed again in float64: "
    said += f"{count(differ)} differ" if differ else "all agree" if agree else "none"
    yield f"{said} (copied in {took[0]}, computed at the end in {took[1]})"
    left_out = facts.get("not_computed", {})
    if left_out:
        many = sum(sum(kinds.values()) for kinds in left_out.values())
        yield f"{plural(many, 'run')} not computed again: {_reasons(left_out)}"


def _reasons(left_out: Mapping[str, Mapping[str, int]]) -> str:
    """Each reason with the nodes to which it applies."""
    return "; ".join(
        f"{why} ({', '.join(f'{kind} {count(runs)}' for kind, runs in kinds.items())})"
        for why, kinds in left_out.items()
    )


def checked_table(runs: Iterable[CheckedRun]) -> TableScene:
    """A row for each kind of node, line and result."""
    groups: dict[tuple[str, str, str, str], list[CheckedRun]] = {}
    for run in runs:
        groups.setdefault((run.found, run.kind, run.line, run.input), []).append(run)
    ordered = sorted(groups.items(), key=lambda each: (WORST_FIRST.index(each[0][0]), each[0]))
    rows = tuple(
        (
            IN_WORDS[found], kind, line, given, count(len(each)),
            _size(max(run.off for run in each)), _size(max(run.allowed for run in each)),
        )
        for (found, kind, line, given), each in ordered
    )  # fmt: skip
    counted = Counter(run.found for each in groups.values() for run in each)
    title = ", ".join(
        f"{count(counted[found])} {IN_WORDS[found]}" for found in WORST_FIRST if counted[found]
    )
    columns = (
        TableColumn("result"), TableColumn("node", is_main=True), TableColumn("line", is_path=True),
        TableColumn("gradient of"), TableColumn("runs", is_number=True),
        TableColumn("off by", is_number=True), TableColumn("allowed", is_number=True),
    )  # fmt: skip
    return TableScene(f"runs of nodes computed again: {title or 'none'}", columns, rows)


def _size(value: float) -> str:
    return f"{value:.1e}" if value else ""
