"""Parts of data that ranks passed to their models: where they lie in what they are cut from.

A part that a rank takes by its own number is either every so many rows, from the row of its number
on, or a block of rows, with as many blocks before it.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.ranks.collectives import grouped_calls
from gradscope.analysis.ranks.merging.one_rank import RankPart
from gradscope.analysis.ranks.training.data.loaders import FEWEST, LoadedPass, loading_of, together
from gradscope.analysis.ranks.training.rank_counts import counts_ranks, names_of_rank_counts
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.functions import functions, own_statements
from gradscope.trace.schema import NONE, BatchAct, CameInAct, GivenAct
from gradscope.trace.trace import Trace

DIVIDES = (ast.FloorDiv, ast.Div)
AT_THE_END = 1 << 62
"""A time after all others."""


@dataclass(frozen=True, slots=True)
class CutAgain:
    """Ranks whose sampler gave each its part, and that took a part of each batch again."""

    ranks: tuple[int, ...]
    given: Done[GivenAct]  # the first, on the first rank
    loader: Site  # the loop, on the first rank
    site: Site  # the line that took the part, or that passed it to the model
    batch: int  # number of samples of a batch
    taken: int  # and of those that the model was given
    times: int  # number of batches


@dataclass(frozen=True, slots=True)
class SamePart:
    """Ranks that evaluated the same part of data, as large as one of equal parts for all ranks."""

    ranks: tuple[int, ...]
    given: Done[GivenAct]  # the first, on the first rank
    site: Site
    part: int  # number of its rows
    whole: int
    times: int  # number of evaluations


def cut_again(trace: Trace) -> tuple[CutAgain, ...]:
    """One for each group of ranks of DistributedDataParallel in which all do this."""
    found = []
    for ranks in trace.once(together).values():
        cuts = [_cut(part) for part in ranks]
        own = {each.sampler.facts.rank for _, each, _ in filter(None, cuts) if each.sampler}
        if len(ranks) > 1 and all(cuts) and len(own) == len(ranks):
            givens, one, _ = cuts[0] or ((), None, 0)
            assert one is not None
            times = min(len(each[0]) for each in cuts if each)
            found.append(CutAgain(
                tuple(part.rank for part in ranks), givens[0], one.site,
                _taken_at(ranks[0].trace, givens[0]), one.batches[0].facts.many,
                givens[0].facts.many[0], times,
            ))  # fmt: skip
    return tuple(found)


def _cut(part: RankPart) -> tuple[Sequence[Done[GivenAct]], LoadedPass, int] | None:
    """What the model was given, if it was the rank's part of each batch of a divided data set."""
    divided = [
        one
        for one in loading_of(part)
        if one.trains and one.is_divided and len(one.batches) >= FEWEST
    ]
    if not divided:
        return None
    acts = part.trace.once(Acts)
    batches = acts.of(BatchAct)
    times = [each.t for each in batches]
    by_batch: Mapping[int, list[Done[GivenAct]]] = grouped(
        (act for act in acts.of(GivenAct) if act.facts.grad and act.facts.many),
        lambda act: bisect_right(times, act.t) - 1,
    )
    of_batches = {batches[at].id: those for at, those in by_batch.items() if at >= 0}
    for one in divided:
        whole = [each for each in one.batches if each.facts.many == one.batches[0].facts.many]
        found = [of_batches.get(each.id, []) for each in whole]  # the last one may be smaller
        if len(whole) >= FEWEST and all(
            _is_own_part(one, *pair) for pair in zip(whole, found, strict=True)
        ):
            return [those[0] for those in found], one, part.rank
    return None


def _is_own_part(one: LoadedPass, batch: Done[BatchAct], given: Sequence[Done[GivenAct]]) -> bool:
    """Whether a model was given one part of a batch, and no other: that of the rank's number."""
    assert one.sampler is not None
    size, rank, many = one.sampler.facts.replicas, one.sampler.facts.rank, batch.facts.many
    if size < 2 or many % size or len(given) != 1:
        return False
    facts = given[0].facts
    rows, first, apart, row, whole = (
        each[0] for each in (facts.many, facts.first, facts.apart, facts.row, facts.whole)
    )
    if rows * size != many or whole != many * row or rows < 1:
        return False
    in_turn = apart == size * row and first == rank * row
    as_block = apart == row and first == rank * rows * row
    return in_turn or as_block


def _taken_at(trace: Trace, given: Done[GivenAct]) -> Site:
    """The line that took a view of data in this step, before a model was given it."""
    acts = trace.once(Acts)
    own = [act for act in acts.of(CameInAct) if act.step == given.step and act.facts.taken != NONE]
    before = [act for act in own if act.t <= given.t]
    return site_of(trace, before[0].facts.taken) if before else acts.site(given)


# -- evaluations ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Calls of models without gradients, between those of the training."""

    given: tuple[Done[GivenAct], ...]
    until: int  # the time of the next call with gradients

    @property
    def looks(self) -> tuple[tuple[int, ...], ...]:
        """What tells its data apart; none if it was not read."""
        looks = tuple(each.facts.digests for each in self.given)
        return () if any(not each or NONE in each for each in looks) else looks


def same_part(trace: Trace) -> tuple[SamePart, ...]:
    """One for each group of ranks that combine what they evaluated.

    The program must divide by the number of ranks in the function that calls the model: else the
    part may be smaller than the whole for another reason.
    """
    found = []
    for ranks in trace.once(together).values():
        every = [evaluations(part.trace) for part in ranks]
        if len(ranks) < 2 or not all(every):
            continue
        same = [each for each in zip(*every, strict=False) if _is_same_part(each, len(ranks))]
        same = [each for each in same if _is_combined(trace, ranks, each)]
        if same and len(same) == min(map(len, every)):
            first, one = same[0][0].given[0], ranks[0].trace
            site = one.once(Acts).site(first)
            if _divides_there(one, first.stack):
                part, whole = _rows(same[0][0])
                those = tuple(part.rank for part in ranks)
                found.append(SamePart(those, first, site, part, whole, len(same)))
    return tuple(found)


def evaluations(trace: Trace) -> list[Evaluation]:
    found: list[Evaluation] = []
    now: list[Done[GivenAct]] = []
    for each in trace.once(Acts).of(GivenAct):
        if not each.facts.grad:
            now.append(each)
        elif now:
            found.append(Evaluation(tuple(now), each.t))
            now = []
    return [*found, Evaluation(tuple(now), AT_THE_END)] if now else found


def _is_same_part(every: Sequence[Evaluation], size: int) -> bool:
    """Whether these ranks evaluated the same rows, as many as an equal part for each rank has."""
    looks = {each.looks for each in every}
    if len(looks) != 1 or looks == {()}:
        return False
    part, whole = _rows(every[0])
    return 0 < part == whole // size


def _rows(evaluation: Evaluation) -> tuple[int, int]:
    """How many rows of one tensor were evaluated, and how many it has; 0 if it is not one."""
    seen: set[int] = set()
    wholes = set()
    for each in evaluation.given:
        facts = each.facts
        many, first, apart, row, whole = (
            each[0] for each in (facts.many, facts.first, facts.apart, facts.row, facts.whole)
        )
        if not row or apart % row or first % row:
            return 0, 0
        wholes.add((whole, row))
        seen.update(range(first // row, first // row + many * (apart // row), apart // row or 1))
    if len(wholes) != 1:
        return 0, 0
    ((whole, row),) = wholes
    return len(seen), whole // row


def _is_combined(trace: Trace, ranks: Sequence[RankPart], every: Sequence[Evaluation]) -> bool:
    """Whether each of these ranks called a collective after it, before the training went on."""
    return all(
        any(
            each.given[-1].t < call.begin < each.until
            for group in trace.once(grouped_calls)
            if not group.reduces
            for call in group.calls.get(part.rank, ())
        )
        for part, each in zip(ranks, every, strict=True)
    )


@dataclass(frozen=True, slots=True)
class PartLine:
    """A line that divides by the number of ranks."""

    line: int
    function: str  # the name of the function that it is in


def part_lines(tree: ast.Module) -> Iterator[PartLine]:
    """All such lines: `len(data) // world`, where `world` is `get_world_size()`."""
    named = names_of_rank_counts(tree)
    for path, body in functions(tree):
        for statement in own_statements(body):
            if isinstance(statement, ast.Assign | ast.Expr | ast.Return | ast.AugAssign):
                for each in ast.walk(statement):
                    if not (isinstance(each, ast.BinOp) and isinstance(each.op, DIVIDES)):
                        continue
                    if counts_ranks(each.right, named):
                        yield PartLine(each.lineno, path.rpartition(".")[2])


def _divides_there(trace: Trace, stack: int) -> bool:
    """Whether the innermost function of a stack divides by the number of ranks."""
    frames = trace.frames(stack)
    if not frames:
        return False
    path = frames[0].function.split(".")
    named = [part for part in path if not part.startswith("<")]  # "evaluate.<locals>.<genexpr>"
    return any(
        each.file.name == frames[0].file and each.found.function == (named or path)[-1]
        for each in trace.once(SourceFiles).each(part_lines)
    )
