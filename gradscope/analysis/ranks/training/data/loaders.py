"""What data loaders gave on each rank: passes over a data set, batches, and the samples in them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.replicas import replicated
from gradscope.trace.schema import (
    NONE,
    BatchAct,
    LoaderAct,
    PassAct,
    SamplerAct,
    SplitAct,
    StepAct,
)
from gradscope.trace.trace import Trace

PLAIN = frozenset(("DistributedSampler", "BatchSampler"))
"""Samplers with which a DistributedSampler alone decides which samples a rank gets."""

FEWEST = 2
"""Least number of batches of a pass that is compared."""

FEWEST_SAMPLES = 4
"""Least number of samples whose order is no coincidence."""


@dataclass(frozen=True)
class LoadedPass:
    """One pass of a loader over its data set, or a part of it."""

    act: Done[PassAct]
    loader: Done[LoaderAct]
    sampler: Done[SamplerAct] | None  # a DistributedSampler
    split: Done[SplitAct] | None  # what divided the data set before
    batches: tuple[Done[BatchAct], ...]
    site: Site  # the line that asked for the batches
    trains: bool  # an optimizer stepped between its batches

    @cached_property
    def samples(self) -> tuple[int, ...]:
        """Its samples in their order; none if they are not known."""
        facts = [each.facts for each in self.batches]
        if any(each.many != len(each.samples) for each in facts):
            return ()
        return tuple(sample for each in facts for sample in each.samples)

    @property
    def is_divided(self) -> bool:
        """Whether a DistributedSampler alone chose its samples, with those of its rank."""
        return self.sampler is not None and self.loader.facts.sampler in PLAIN


@dataclass(frozen=True, slots=True)
class LoadedApart:
    """Two ranks whose DistributedSamplers took parts that overlap.

    `why`: in what they differ: "seed", "epoch", "split"; or "rank", in which they do not.
    """

    ranks: tuple[int, int]
    acts: tuple[Acts, Acts]
    passes: tuple[LoadedPass, LoadedPass]  # the first that overlap
    why: str
    both: int  # number of samples that both read
    of: int  # number of samples of the first rank
    left: int  # number of samples that nobody read, of `whole`; NONE: not known
    whole: int
    times: int  # number of passes that overlap


class Loading:
    """The passes of all loaders in the trace of one rank."""

    def __init__(self, trace: Trace) -> None:
        self._acts = trace.once(Acts)

    @cached_property
    def passes(self) -> tuple[LoadedPass, ...]:
        """In the order in which they began; those without a batch are left out."""
        acts = self._acts
        if not len(acts.trace.table(BatchAct)):
            return ()  # at once: there may be many ranks
        batches = grouped(acts.of(BatchAct), lambda act: act.of)
        stepped = self._stepped
        found = []
        for act in acts.of(PassAct):
            loader, own = acts.by_id.get(act.of), tuple(batches.get(act.id, ()))
            if own and loader is not None and isinstance(loader.facts, LoaderAct):
                sampler, split = acts.by_id.get(loader.of), acts.by_id.get(loader.facts.split)
                trains = any(stepped[each.id] for each in own[:-1])
                found.append(
                    LoadedPass(act, loader, sampler, split, own, acts.site(act), trains)  # type: ignore[arg-type]
                )
        return tuple(found)

    @cached_property
    def _stepped(self) -> Counter[int]:
        """How often an optimizer stepped after each batch, before the next one of any loader."""
        batches = self._acts.of(BatchAct)
        times = [each.t for each in batches]
        found = Counter[int]()
        for step in self._acts.of(StepAct):
            before = bisect_right(times, step.t) - 1
            if before >= 0:
                found[batches[before].id] += 1
        return found


def loading_of(part: RankPart) -> tuple[LoadedPass, ...]:
    """The passes of a rank of DistributedDataParallel, or of any rank."""
    return part.trace.once(Loading).passes


def together(trace: Trace) -> dict[tuple[str, tuple[int, ...]], list[RankPart]]:
    """The ranks whose models DistributedDataParallel keeps equal, by group."""
    found: dict[tuple[str, tuple[int, ...]], list[RankPart]] = {}
    if "ranks" in trace.meta:
        for part in trace.once(parts):
            for group in dict.fromkeys(group for group, _ in part.trace.once(replicated)):
                found.setdefault(group, []).append(part)
    return found


def loaded_apart(trace: Trace) -> tuple[LoadedApart, ...]:
    """Ranks that share samples, though DistributedSamplers were to divide the data set."""
    found: dict[tuple[str, str, int], LoadedApart] = {}
    for (_, members), ranks in trace.once(together).items():
        divided = {part.rank: _divided(part) for part in ranks}
        for one, other in combinations(ranks, 2):
            for key, mine in divided[one.rank].items():
                theirs = divided[other.rank].get(key, [])
                each = _apart(one, other, mine, theirs, len(members))
                if each is not None:
                    found.setdefault((key[0], each.why, key[2]), each)
    return tuple(found.values())


Key = tuple[str, str, int, int]
"""What passes on two ranks have in common: line of the loop, type of data, replicas, total."""


def _divided(part: RankPart) -> Mapping[Key, list[LoadedPass]]:
    divided = [
        each
        for each in loading_of(part)
        if each.trains and each.is_divided and each.samples and len(each.batches) >= FEWEST
    ]
    return grouped(divided, _key)


def _key(each: LoadedPass) -> Key:
    assert each.sampler is not None
    facts = each.sampler.facts
    return each.site.place, each.loader.facts.data, facts.replicas, facts.total


def _apart(
    one: RankPart, other: RankPart, mine: list[LoadedPass], theirs: list[LoadedPass], size: int
) -> LoadedApart | None:
    found = []
    for pair in zip(mine, theirs, strict=False):
        replicas = max(each.sampler.facts.replicas for each in pair if each.sampler)
        both = len({*pair[0].samples} & {*pair[1].samples})
        why = _why(pair, size)
        if why and both > replicas:
            found.append((why, pair, both))
    if not found:
        return None
    why, pair, both = found[0]
    return LoadedApart(
        (one.rank, other.rank),
        (one.trace.once(Acts), other.trace.once(Acts)),
        pair, why, both, len({*pair[0].samples}), *_left(pair, size), len(found),
    )  # fmt: skip


def _why(pair: tuple[LoadedPass, LoadedPass], size: int) -> str:
    """In what two DistributedSamplers differ that must be equal; "rank": or the other way round."""
    (one, other), (epoch, later) = pair, (each.act.facts.epoch for each in pair)
    assert one.sampler is not None
    assert other.sampler is not None
    first, second = one.sampler.facts, other.sampler.facts
    if one.split and other.split:
        digests = {one.split.facts.digest, other.split.facts.digest}
        if len(digests) > 1 and NONE not in digests:
            return "split"
    if first.rank == second.rank:
        return "rank" if first.replicas == size > 1 else ""
    if not (first.shuffle and second.shuffle):
        return ""
    if first.seed != second.seed:
        return "seed"
    return "epoch" if epoch != later else ""


def _left(pair: tuple[LoadedPass, LoadedPass], size: int) -> tuple[int, int]:
    """How many samples nobody read, if the two ranks are all; and how many there are."""
    one, other = pair
    whole = one.loader.facts.many
    assert one.sampler is not None
    facts = one.sampler.facts
    ended = sum(each.facts.many for each in one.batches) * facts.replicas >= facts.total
    if size != len(pair) or one.split or whole == NONE or not ended:
        return NONE, whole
    return whole - len({*one.samples} | {*other.samples}), whole


@dataclass(frozen=True, slots=True)
class PartsLeft:
    """A data set that is divided among more ranks than there are."""

    first: LoadedPass  # on the first rank
    acts: Acts
    read: tuple[int, ...]  # the numbers of parts that are read
    left: int  # number of samples that no rank reads in this pass
    whole: int


def parts_left(trace: Trace) -> tuple[PartsLeft, ...]:
    """One for each line that asks for batches, if all ranks of the program were recorded."""
    every = trace.once(parts) if "ranks" in trace.meta else ()
    if any(part.trace.meta.get("world_size") != len(every) for part in every):
        return ()
    found: dict[Key, list[tuple[RankPart, LoadedPass]]] = {}
    read: dict[Key, set[int]] = {}
    for part in every:
        for key, passes in _divided(part).items():
            found.setdefault(key, []).append((part, passes[0]))
            numbers = {each.sampler.facts.rank for each in passes if each.sampler is not None}
            read.setdefault(key, set()).update(numbers)
    checked = (
        _parts_left(own, tuple(sorted(read[key])))
        for key, own in found.items()
        if len(own) == len(every) >= len(read[key])
    )
    return tuple(each for each in checked if each is not None)


def _parts_left(
    own: Sequence[tuple[RankPart, LoadedPass]], read: tuple[int, ...]
) -> PartsLeft | None:
    """`read`: the numbers of the parts that these ranks read in any pass."""
    first, whole = own[0][1], own[0][1].loader.facts.many
    assert first.sampler is not None
    replicas, total = first.sampler.facts.replicas, first.sampler.facts.total
    ended = all(sum(b.facts.many for b in each.batches) * replicas >= total for _, each in own)
    epochs = {each.act.facts.epoch for _, each in own}
    if replicas <= len(own) or not ended or whole == NONE or len(epochs) > 1:
        return None
    left = whole - len({sample for _, each in own for sample in each.samples})
    return PartsLeft(first, own[0][0].trace.once(Acts), read, left, whole) if left > 0 else None


# -- one rank -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SameOrder:
    """Ranks whose passes of a DistributedSampler all had the same order, as their epoch was one."""

    ranks: tuple[int, ...]
    first: LoadedPass  # on the first rank
    part: RankPart
    times: int  # number of passes


def same_orders(trace: Trace) -> tuple[SameOrder, ...]:
    """One for each line that asks for batches to train on."""
    found: dict[str, list[SameOrder]] = {}
    for ranks in trace.once(together).values():
        for part in ranks:
            shuffled = [
                each for each in loading_of(part) if each.trains and each.is_divided
                if each.sampler is not None and each.sampler.facts.shuffle
            ]  # fmt: skip
            for several in grouped(shuffled, lambda each: each.loader.of).values():
                if _is_one_order(several):
                    one = SameOrder((part.rank,), several[0], part, len(several))
                    found.setdefault(several[0].site.place, []).append(one)
    return tuple(
        SameOrder(tuple(each.ranks[0] for each in same), same[0].first, same[0].part, same[0].times)
        for same in found.values()
    )


def _is_one_order(passes: Sequence[LoadedPass]) -> bool:
    """Whether several passes began with the same samples, and had the same epoch."""
    epochs = {each.act.facts.epoch for each in passes}
    orders = [each.samples for each in passes]
    shortest = min(map(len, orders))
    same = len({order[:shortest] for order in orders}) == 1
    return len(passes) > 1 and shortest >= FEWEST_SAMPLES and len(epochs) == 1 and same


def undivided_at(trace: Trace, rank: int) -> tuple[Site, LoadedPass] | None:
    """The only loader that a rank trained with, if no sampler gives it a part; and where it is."""
    for part in trace.once(parts) if "ranks" in trace.meta else ():
        passes = [each for each in loading_of(part) if each.trains and part.rank == rank]
        sites = {part.trace.once(Acts).site(each.loader) for each in passes}
        if len(sites) == 1 and not any(each.sampler for each in passes):
            return sites.pop(), passes[0]
    return None
