"""Factors of parts of gradients, and steps that ranks made together, on made-up numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from gradscope.analysis.ranks.auditing.measured import MeasuredGradient
from gradscope.analysis.ranks.auditing.scaled_parts import copies, part_scales
from gradscope.analysis.ranks.auditing.together import Meetings, counterpart
from gradscope.trace.schema import NONE, Collective, Phase, ProcessGroup, Span
from tests.shared.example_traces import Program

KINDS = (1.0, 2.0, 0.5, 4.0)
ELEMENTS = 12


def parts_of(
    factors: Sequence[float], seed: int, replicas: int = 1, summed: float | None = None
) -> Mapping[int, MeasuredGradient]:
    """A parameter that ranks hold in parts, some times, each scaled by the factor of its rank."""
    random = np.random.default_rng(seed)
    gradient = random.normal(size=(len(factors), ELEMENTS // len(factors)))
    if summed is not None:
        gradient += (summed - gradient.sum()) / ELEMENTS
    size = len(factors) * replicas
    noise = random.normal(size=size)
    arrived = gradient.sum() + noise - noise.mean()
    own = [gradient[at] * factor for at, factor in enumerate(factors)] * replicas
    return {
        rank: MeasuredGradient(
            "weight", 1, "Shard(0)", float(np.linalg.norm(part)), float(part.sum()), 1.0,
            NONE, float(arrived[rank]), ELEMENTS, part.size,
        )
        for rank, part in enumerate(own)
    }  # fmt: skip


def test_one_factor_of_all_ranks_is_told() -> None:
    scales = part_scales([parts_of((0.3, 0.3), seed) for seed in range(8)], KINDS)

    assert [each.factor for each in scales if each] == pytest.approx([0.3] * 8)


def test_another_factor_on_each_rank_is_told_by_rank() -> None:
    scales = part_scales([parts_of((0.3, 0.7), seed) for seed in range(8)], KINDS)

    assert all(each is not None and math.isnan(each.factor) for each in scales)
    assert {rank: pytest.approx(factor) for rank, factor in ((0, 0.3), (1, 0.7))} == (
        scales[0].by_rank if scales[0] else {}
    )


def test_two_parameters_with_other_factors_tell_nothing() -> None:
    scales = part_scales([parts_of((0.3, 0.7), seed) for seed in range(2)], KINDS)

    assert all(each and math.isnan(each.factor) and not each.by_rank for each in scales)


def test_a_single_odd_factor_tells_nothing() -> None:
    [scale] = part_scales([parts_of((0.3, 0.7), 1)], KINDS)

    assert scale is not None
    assert math.isnan(scale.factor)


def test_sums_of_about_zero_tell_nothing() -> None:
    *rest, last = part_scales(
        [*(parts_of((1, 1), seed) for seed in range(3)), parts_of((1, 1), 5, summed=0)], KINDS
    )

    assert [each.factor for each in rest if each] == pytest.approx([1] * 3)
    assert last is not None
    assert math.isnan(last.factor)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_copies_of_parts_count_once(replicas: int) -> None:
    several = [parts_of((1, 1), seed, replicas) for seed in range(4)]

    assert copies(several[0]) == replicas
    assert [each.factor for each in part_scales(several, KINDS) if each] == pytest.approx([1] * 4)


def test_copies_that_differ_tell_nothing() -> None:
    one, other = parts_of((1, 1), 0, 2), parts_of((0.5, 0.5), 0, 2)
    [scale] = part_scales([{**one, 3: other[3]}], KINDS)

    assert scale is not None
    assert math.isnan(scale.factor)


def meetings(rank: int, times: Sequence[int]) -> Meetings:
    """A rank that called all_reduce at these times."""
    program = Program()
    program.rows.append(ProcessGroup(7, "0", "default_pg", (0, 1)))
    for t in times:
        span = program.id("span")
        program.rows.append(Span(span, "all_reduce", Phase.COLLECTIVE, NONE, 0, NONE, t, t + 1))
        program.rows.append(Collective(span, 7))
    return Meetings(rank, program.trace(rank=rank, world_size=2))


def test_steps_belong_together_by_the_collectives_before_them() -> None:
    one, other = meetings(0, [10, 20, 30]), meetings(1, [110, 120, 130])

    def of(number: int) -> int | None:
        return counterpart(one, [15, 35], number, other, [115, 125, 135])

    assert [of(0), of(1)] == [0, 2]  # rank 0 skipped a step


def test_steps_without_a_counterpart_have_none() -> None:
    one, other = meetings(0, [10, 20]), meetings(1, [110, 120])

    assert counterpart(one, [15, 25], 0, other, [125]) is None
    assert counterpart(one, [25, 26], 1, other, [125, 126]) == 1  # between the same collectives
    assert counterpart(one, [25, 26], 1, other, [125]) is None


def test_steps_of_ranks_that_call_nothing_together_belong_together_by_number() -> None:
    assert counterpart(meetings(0, []), [1, 2], 1, meetings(1, []), [5, 6]) == 1
    assert counterpart(meetings(0, []), [1, 2], 1, meetings(1, []), [5]) is None
