"""What a fleet does not hold of that which a question needs."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.ranks.whose import listed
from gradscope.fleet.asking.engine import PartWork, from_bytes, run_part
from gradscope.fleet.asking.folder import Fleet
from gradscope.fleet.asking.question import Question

MOST_RUNS = 3


def lacking(fleet: Fleet, question: Question, without: set[str]) -> Iterator[str]:
    """In words, what is not recorded of any rank that is asked for."""
    for need in question.needs:
        if not any(_has_values(fleet, column, need.where, without) for column in need.columns):
            yield f"not recorded: {need.what}; {need.record}"


def ranks_without(fleet: Fleet, question: Question, without: set[str]) -> Iterator[str]:
    """In words, the ranks of which nothing is recorded that is needed, while it is of others.

    A rank counts as recorded if it has rows of the first table of the columns that are needed.
    """
    for need in question.needs:
        first, *others = need.columns
        known = fleet.ranks(first.partition(".")[0])
        left = fleet.only(fleet.traces - known)
        known |= {
            each
            for column in others
            if left.chosen
            for each in _ranks_with(left, column, need.where, without)
        }
        for run in sorted({run for run, _ in fleet.traces - known})[:MOST_RUNS] if known else ():
            ranks = sorted(rank for its, rank in fleet.traces - known if its == run)
            yield f"not recorded: {need.what} of {listed(ranks)} of run {run}; {need.record}"


def _has_values(fleet: Fleet, column: str, where: str, without: set[str]) -> bool:
    return bool(_ranks_with(fleet, column, where, without, most=1))


def _ranks_with(
    fleet: Fleet, column: str, where: str, without: set[str], most: int = 1 << 30
) -> set[tuple[str, int]]:
    """Runs and ranks that have values in a column."""
    table, _, name = column.partition(".")
    files = [each.path for each in fleet.files(table) if each.path not in without]
    if not files:
        return set()
    sql = f"""
        SELECT DISTINCT run, rank FROM (
            SELECT run, rank FROM "{table}" WHERE "{name}" IS NOT NULL AND ({where or "true"})
            LIMIT {most}
        )
    """
    work = PartWork(str(fleet.root), {table: files}, sql, steps=fleet.asked.steps)
    return {(each["run"], each["rank"]) for each in from_bytes(run_part(work)).to_pylist()}
