"""By which factors the parts of gradients were scaled, if each rank holds a part.

What arrived on a rank is a gradient of the whole parameter; what was used is that of its part. So
one parameter shows one factor only if all ranks scaled their parts by the same. Many parameters
show whether they did: then one factor holds for most of them. If not, one factor for each rank may
hold for all of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from gradscope.analysis.ranks.auditing.measured import CLOSE, MeasuredGradient, is_near, shows

ROOM = 3 * CLOSE
MOST = 0.8
"""Share of the parameters for which factors of the ranks must hold."""


@dataclass(frozen=True, slots=True)
class PartScale:
    """The factors of one parameter; neither is known if it cannot be told."""

    factor: float = math.nan  # on all ranks
    by_rank: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Whole:
    """A parameter of which each rank has a part."""

    used: dict[int, float]  # sum of the part's gradient, as a share of a copy of the whole
    mean: float  # of the sums that arrived
    norm: float
    elements: int

    @property
    def factor(self) -> float:
        return sum(self.used.values()) / self.mean

    @property
    def tells(self) -> bool:
        total = sum(self.used.values())
        return shows(self.mean, self.norm, self.elements) and shows(total, self.norm, self.elements)


def copies(of: Mapping[int, MeasuredGradient]) -> int:
    """How many times the ranks hold the whole parameter; 0: not known, or copies differ."""
    every = [*of.values()]
    often = Counter((each.norm, round(each.sum, 6)) for each in every if each.norm)
    if all(each.local is not None for each in every) and every[0].elements:
        held = sum(each.local or 0 for each in every)
        many, rest = divmod(held, every[0].elements)
        alike = not rest and all(times % many == 0 for times in often.values()) if many else False
        return many if alike else 0
    return reduce(math.gcd, often.values(), 0)


def part_scales(
    every: Sequence[Mapping[int, MeasuredGradient]], kinds: Sequence[float]
) -> list[PartScale | None]:
    """The factors of all parameters; None: what arrived is not known. `kinds`: usual factors."""
    wholes = [_whole(of) for of in every]
    told = [each for each in wholes if isinstance(each, _Whole) and each.tells]
    factors = [each.factor for each in told]
    usual = bool(factors) and all(_usual(each, kinds) for each in factors)
    common = _common(factors, kinds)
    by_rank = {} if usual or not math.isnan(common) else _fitted(wholes)
    found: list[PartScale | None] = []
    for each in wholes:
        if each is None:
            found.append(None)
        elif not isinstance(each, _Whole):
            found.append(PartScale())
        elif by_rank:
            found.append(PartScale(by_rank=by_rank) if _fits(each, by_rank) else PartScale())
        elif each.tells and (usual or _belongs(each.factor, common, kinds)):
            found.append(PartScale(each.factor))
        else:
            found.append(PartScale())
    return found


def _whole(of: Mapping[int, MeasuredGradient]) -> _Whole | bool | None:
    """None: what arrived is not known; False: the parts do not make a whole."""
    if any(math.isnan(each.arrived) for each in of.values()):
        return None
    many = copies(of)
    if not many:
        return False
    first = next(iter(of.values()))
    return _Whole(
        {rank: each.sum / many for rank, each in of.items()},
        sum(each.arrived for each in of.values()) / len(of),
        math.sqrt(sum(each.norm**2 for each in of.values()) / many),
        first.elements,
    )


def _usual(factor: float, kinds: Sequence[float]) -> bool:
    return any(is_near(factor, each) for each in kinds)


def _common(factors: Sequence[float], kinds: Sequence[float]) -> float:
    """The factor of more than half of the parameters; NaN if there is none."""
    support = {each: sum(is_near(other, each) for other in factors) for each in factors}
    best = max(support, key=support.__getitem__, default=math.nan)
    many = support.get(best, 0)
    enough = many > 1 or _usual(best, kinds)
    return best if enough and 2 * many > len(factors) else math.nan


def _belongs(factor: float, common: float, kinds: Sequence[float]) -> bool:
    if math.isnan(common):
        return False
    return is_near(factor, common) or _usual(factor, kinds)


def _fitted(wholes: Sequence[_Whole | bool | None]) -> dict[int, float]:
    """A factor for each rank that holds for most parameters; empty if there is none."""
    known = [each for each in wholes if isinstance(each, _Whole) and each.norm]
    if not known:
        return {}
    ranks = [*known[0].used]
    scale = np.array([each.norm * math.sqrt(max(each.elements, 1)) for each in known])
    used = np.array([[each.used[rank] for rank in ranks] for each in known]) / scale[:, None]
    mean = np.array([each.mean for each in known]) / scale
    if len(known) < 2 * len(ranks) + 1 or np.linalg.matrix_rank(used, 1e-3) < len(ranks):
        return {}
    inverse = np.linalg.lstsq(used, mean, rcond=None)[0]
    if (inverse <= 0).any():
        return {}
    found = {rank: float(1 / each) for rank, each in zip(ranks, inverse, strict=True)}
    fitting = sum(_fits(each, found) for each in known)
    return found if fitting >= MOST * len(known) else {}


def _fits(whole: _Whole, by_rank: Mapping[int, float]) -> bool:
    """Whether the factors explain what was used, and this parameter shows something."""
    terms = [whole.used[rank] / factor for rank, factor in by_rank.items()]
    largest = max(abs(each) for each in terms)
    telling = shows(largest, whole.norm / min(by_rank.values()), whole.elements)
    return telling and abs(sum(terms) - whole.mean) <= ROOM * largest
