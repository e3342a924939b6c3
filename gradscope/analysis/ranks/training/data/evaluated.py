"""Means over parts of other sizes, of which ranks take the mean: it is not that of all data.

The run shows how many rows each rank evaluated, and that it called the collective then. The source
shows that what is passed is a mean, and that the sum is divided by the number of ranks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.ranks.collectives import RankCall, grouped_calls
from gradscope.analysis.ranks.merging.one_rank import RankPart
from gradscope.analysis.ranks.training.data.given import Evaluation, evaluations
from gradscope.analysis.ranks.training.data.loaders import together
from gradscope.analysis.ranks.training.rank_counts import counts_ranks, names_of_rank_counts
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.functions import functions, is_named, last_name, own_statements
from gradscope.trace.trace import Trace

DEEPEST = 3
"""Number of assignments through which a mean is looked for."""
CLOCKS = frozenset((
    "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns",
    "process_time", "process_time_ns", "thread_time", "default_timer", "elapsed_time", "now",
))  # fmt: skip
"""Functions that read a clock."""
TIMES = frozenset((
    "time", "times", "timer", "timers", "elapsed", "duration", "durations", "latency", "latencies",
    "second", "seconds", "sec", "secs", "ms", "us", "ns", "throughput",
))  # fmt: skip
"""Words in names of what clocks measured. A mean of it is not one over rows."""


@dataclass(frozen=True, slots=True)
class MeanOfMeans:
    """Evaluations after which ranks took the mean of their means."""

    site: Site  # the mean
    reduced_at: Site
    rows: Mapping[int, int]  # that each rank evaluated, the first time
    times: int
    span: int  # the first of these collectives, on the first rank


@dataclass(frozen=True, slots=True)
class AveragedMean:
    """A line that sums a mean over ranks, of which the number of ranks is divided later."""

    line: int
    last: int
    mean: int  # the line that takes it


def means_of_means(trace: Trace) -> tuple[MeanOfMeans, ...]:
    """One for each line that takes such a mean."""
    lines = trace.once(SourceFiles).each(averaged_means) if "ranks" in trace.meta else []
    found: dict[Site, MeanOfMeans] = {}
    for ranks in trace.once(together).values() if lines else ():
        if len(ranks) > 1:
            for each in _of_ranks(trace, ranks, lines):
                found.setdefault(each.site, each)
    return tuple(found.values())


def _of_ranks(
    trace: Trace, ranks: Sequence[RankPart], lines: Sequence[InSource[AveragedMean]]
) -> Iterator[MeanOfMeans]:
    every = [evaluations(part.trace) for part in ranks]
    numbers = [part.rank for part in ranks]
    for line in lines:
        differ: list[tuple[Mapping[int, int], RankCall]] = []
        for several in zip(*every, strict=False):
            rows: Mapping[int, int] = dict(zip(numbers, map(_rows, several), strict=True))
            calls = [_call(trace, *each, line) for each in zip(numbers, several, strict=True)]
            if all(rows.values()) and len({*rows.values()}) > 1 and calls[0] and all(calls):
                differ.append((rows, calls[0]))
        if differ:
            shown, first = differ[0]
            mean, site = line.file.site(line.found.mean), own_site(trace, first.stack)
            yield MeanOfMeans(mean, site, shown, len(differ), first.span)


def _rows(evaluation: Evaluation) -> int:
    """The number of rows of the first tensor that models were called with; 0: not known."""
    many = [each.facts.many[0] if each.facts.many else 0 for each in evaluation.given]
    return sum(many) if all(many) else 0


def _call(
    trace: Trace, rank: int, evaluation: Evaluation, line: InSource[AveragedMean]
) -> RankCall | None:
    """The collective of this line after an evaluation, before the training goes on."""
    for group in trace.once(grouped_calls):
        for call in group.calls.get(rank, ()):
            if evaluation.given[-1].t < call.begin < evaluation.until:
                site = own_site(trace, call.stack)
                if site.file == line.file.name and line.found.line <= site.line <= line.found.last:
                    return call
    return None


# -- in the source --------------------------------------------------------------------------------


def averaged_means(tree: ast.Module) -> Iterator[AveragedMean]:
    """All `all_reduce(x)` where `x` is a mean and is divided by the number of ranks later."""
    named = names_of_rank_counts(tree)
    for _, body in functions(tree):
        statements = [*own_statements(body)]
        times = _names_of_times(statements)
        for at, each in enumerate(statements):
            if not isinstance(each, ast.Expr | ast.Assign) or not isinstance(each.value, ast.Call):
                continue
            call = each.value
            if last_name(call.func) != "all_reduce" or not call.args:
                continue
            passed = call.args[0]
            averages = any("AVG" in ast.unparse(word.value) for word in call.keywords)
            if not isinstance(passed, ast.Name):
                continue
            if averages or any(_divides(later, passed.id, named) for later in statements[at + 1 :]):
                mean = _mean(statements[:at], passed.id, _LocalNames(named, times), DEEPEST)
                if mean:
                    yield AveragedMean(each.lineno, each.end_lineno or each.lineno, mean)


def _divides(statement: ast.stmt, name: str, named: frozenset[str]) -> bool:
    """Whether a statement divides a variable, or a number taken from it, by the ranks."""
    for each in ast.walk(statement):
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div):
            divided, by = each.left, each.right
        elif isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Div):
            divided, by = each.target, each.value
        elif isinstance(each, ast.Call) and last_name(each.func) in ("div_", "div") and each.args:
            divided, by = each.func, each.args[0]
        else:
            continue
        if counts_ranks(by, named) and any(is_named(inner, name) for inner in ast.walk(divided)):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _LocalNames:
    """What is known of the names of a function."""

    ranks: frozenset[str]  # names of the number of ranks
    times: frozenset[str]  # names of what clocks measured


def _mean(before: Sequence[ast.stmt], name: str, known: _LocalNames, deepest: int) -> int:
    """The line of the mean that a variable was given last; 0: it is none, or one of times."""
    for at in range(len(before) - 1, -1, -1):
        each = before[at]
        if not (isinstance(each, ast.Assign) and any(is_named(to, name) for to in each.targets)):
            continue
        if _measures_time(each.value, known.times) or any(map(_is_time, _names(each.value, name))):
            return 0
        for inner in ast.walk(each.value):
            match inner:
                case ast.Call(func=called) if last_name(called) == "mean":
                    return each.lineno
                case ast.BinOp(op=ast.Div(), right=by) if _counts(by, known.ranks):
                    return each.lineno
        others = [inner.id for inner in ast.walk(each.value) if isinstance(inner, ast.Name)]
        found = (_mean(before[:at], other, known, deepest - 1) for other in others if deepest > 1)
        return next(filter(None, found), 0)
    return 0


def _counts(divisor: ast.expr, ranks: frozenset[str]) -> bool:
    """Whether a divisor may be a number of rows: not that of ranks, and no unit such as 2**20."""
    varies = any(isinstance(each, ast.Name) for each in ast.walk(divisor))
    return varies and not counts_ranks(divisor, ranks)


def _names_of_times(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """The variables of a function into which a clock's time goes, or a list of them."""
    known: frozenset[str] = frozenset()
    while True:
        more = known.union(*(_given_times(each, known) for each in statements))
        if more == known:
            return known
        known = more


def _given_times(statement: ast.stmt, known: frozenset[str]) -> Iterator[str]:
    """The names that a statement gives a time."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AugAssign(target=target, value=value):
            targets = [target]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="append"), args=[value])):
            targets = [held]
        case _:
            return
    if _measures_time(value, known):
        yield from (each.id for each in targets if isinstance(each, ast.Name))


def _measures_time(expression: ast.expr, known: frozenset[str]) -> bool:
    return any(
        (isinstance(each, ast.Name) and each.id in known)
        or (isinstance(each, ast.Call) and last_name(each.func) in CLOCKS)
        for each in ast.walk(expression)
    )


def _names(expression: ast.expr, name: str) -> Iterator[str]:
    """The names in an expression, and that of the variable it is assigned to."""
    yield name
    yield from (last_name(each) for each in ast.walk(expression))


def _is_time(name: str) -> bool:
    return not TIMES.isdisjoint(name.lower().split("_"))
