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

def ranks_without(fleet: Fleet, question: Question) -> Iterator[str]:
    """In words, the ranks that have no rows of what is needed, while others do."""
    every = fleet.traces
    for need in question.needs:
        tables = {column.partition(".")[0] for column in need.columns}
        known = {each for table in tables for each in fleet.ranks(table)}
        for run in sorted({run for run, _ in every - known})[:MOST_RUNS] if known else ():
            ranks = sorted(rank for its, rank in every - known if its == run)
            yield f"not recorded: {need.what} of {listed(ranks)} of run {run}; {need.record}"

def _has_values(fleet: Fleet, column: str, where: str, without: set[str]) -> bool:
    table, _, name = column.partition(".")
    files = [each.path for each in fleet.files(table) if each.path not in without]
    if not files:
        return False
    sql = f'SELECT 1 AS one FROM "{table}" WHERE "{name}" IS NOT NULL AND ({where or "true"}) LIMIT 1'
    return len(from_bytes(run_part(PartWork(str(fleet.root), {table: files}, sql)))) > 0

__all__ = ["Need", "lacking", "ranks_without"]
