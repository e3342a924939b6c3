"""Which gradients ranks use, from traces made by hand: averaged, in part, or those of others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.ranks.replicas import drifts
from gradscope.analysis.ranks.training.gradients.exchanged_names import combined_with_others
from gradscope.trace.schema import (
    Act,
    Collective,
    OptimizerAct,
    Phase,
    ProcessGroup,
    Span,
    StepAct,
    Tensor,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

Norms = Sequence[tuple[float, ...]]
"""The norms of gradients, step by step."""


def rank(
    number: int,
    norms: Norms,
    *,
    names: Sequence[str] = "ab",
    sizes: Norms = (),
    groups: Sequence[tuple[int, ...]] = ((0, 1),),
    calls: Sequence[tuple[int, tuple[int, ...]]] = ((0, (2,)),),
) -> Trace:
    """A rank that takes a step every 100 ns, each after these calls of `all_reduce`.

    `calls`: the index of the group, and the shape of what is reduced. `sizes`: of parameters.
    """
    rows = [Tensor(at, name=name) for at, name in enumerate(names)]
    every = [Act(0, "optimizer", tensors=tuple(range(len(names))), t=1), OptimizerAct(0, "SGD")]
    held = [ProcessGroup(at, str(at), members=members) for at, members in enumerate(groups)]
    for step, grad in enumerate(norms):
        now = 100 * (step + 1)
        for at, (group, shape) in enumerate(calls):
            span, begin = step * len(calls) + at, now - 50 + at
            every.append(Span(span, "all_reduce", Phase.COLLECTIVE, begin=begin, end=begin + 1))
            every.append(Collective(span, group, shape=shape, dtype="float32"))
        size = sizes[step] if sizes else (1.0 + step * number,) * len(names)
        every += [
            Act(step + 1, "step", of=0, t=now, step=step),
            StepAct(step + 1, grad=grad, size=size if step else (1.0,) * len(names)),
        ]
    return trace_of(*rows, *held, *every, meta={"rank": number, "world_size": 2, "host": "one"})


OWN, OTHER, MEAN = (3.0, 4.0), (5.0, 6.0), (4.0, 5.0)


def found(*ranks: Trace) -> list[tuple[str, int, int, int]]:
    """What drifts are found: what differs, the number of groups, and the steps that were alike."""
    return [
        (drift.what, len(drift.averaged.groups), drift.averaged.steps, drift.averaged.of)
        for drift in drifts(merged(ranks))
        if drift.averaged
    ]


def test_gradients_that_are_averaged_in_some_steps_only_are_found() -> None:
    first, second = [OWN, OWN, MEAN, OWN], [OTHER, OTHER, MEAN, OTHER]

    assert found(rank(0, first), rank(1, second)) == [("gradient", 1, 1, 4)]


def test_ranks_that_always_use_their_own_gradients_are_no_replicas() -> None:
    assert found(rank(0, [OWN] * 4), rank(1, [OTHER] * 4)) == []


def test_gradients_that_are_averaged_at_first_and_never_again_are_local_sgd() -> None:
    first, second = [MEAN, OWN, OWN, OWN], [MEAN, OTHER, OTHER, OTHER]

    assert found(rank(0, first), rank(1, second)) == []


def test_one_late_gradient_that_is_equal_by_chance_is_no_average() -> None:
    first, second = [OWN, OWN, MEAN, OWN], [OTHER, OTHER, (4.0, 7.0), OTHER]

    assert found(rank(0, first), rank(1, second)) == []


def test_ranks_that_make_their_parameters_equal_again_are_left_out() -> None:
    first, second = [OWN, MEAN, MEAN, OWN], [OTHER, MEAN, MEAN, OTHER]
    sizes = [(1.0, 1.0)] * 4

    assert found(rank(0, first, sizes=sizes), rank(1, second, sizes=sizes)) == [
        ("gradient", 1, 2, 4)
    ]
    apart = [(1.0, 1.0), (2.0, 2.0), (1.0, 1.0), (2.0, 2.0)]
    assert found(rank(0, first, sizes=sizes), rank(1, second, sizes=apart)) == []


PAIRS = [(0, 1), (2, 3)]
EVERY = (0, 1, 2, 3)


def four(calls: Sequence[tuple[int, tuple[int, ...]]], grads: Sequence[Norms]) -> list[Trace]:
    """Ranks 0 and 1 are a group, and ranks 2 and 3; group 0 is that of a rank, 1 that of all."""
    return [
        rank(number, own, groups=[PAIRS[number // 2], EVERY], calls=calls, sizes=sizes)
        for number, own in enumerate(grads)
        for sizes in [[(1.0 + step * (number // 2),) * 2 for step in range(4)]]
    ]


GROUPED = [[OWN] * 4, [OWN] * 4, [OTHER] * 4, [OTHER] * 4]


def test_gradients_that_are_averaged_in_groups_and_never_across_are_found() -> None:
    assert found(*four([(0, (2,))], GROUPED)) == [("gradient", 2, 4, 4)]


def test_numbers_that_all_ranks_exchange_do_not_make_parameters_equal() -> None:
    assert found(*four([(0, (2,)), (1, ())], GROUPED)) == [("gradient", 2, 4, 4)]


def test_groups_that_exchange_tensors_may_be_parts_of_one_model() -> None:
    assert found(*four([(0, (2,)), (1, (8, 8))], GROUPED)) == []


def test_a_group_whose_ranks_use_their_own_gradients_shows_no_average() -> None:
    assert found(*four([(0, (2,))], [[OWN] * 4, [MEAN] * 4, [OTHER] * 4, [OTHER] * 4])) == []


@pytest.mark.parametrize(
    ("names", "mine", "theirs", "many"),
    [
        pytest.param("ba", (3.0, 4.0), (3.0, 4.0), 2, id="by position"),
        pytest.param("ab", (3.0, 4.0), (4.0, 3.0), 2, id="of others, in the same order"),
        pytest.param("ba", (3.0, 4.0), (4.0, 3.0), 0, id="by name"),
        pytest.param("ab", (3.0, 4.0), (5.0, 6.0), 0, id="each its own"),
        pytest.param("ab", (3.0, 4.0), (4.0, 5.0), 0, id="one of them by chance"),
        pytest.param("ab", (3.0, 3.0), (3.0, 3.0), 0, id="equal ones"),
        pytest.param("ac", (3.0, 4.0), (4.0, 3.0), 0, id="other names"),
    ],
)
def test_gradients_of_other_parameters_are_known_by_their_norms(
    names: str, mine: tuple[float, ...], theirs: tuple[float, ...], many: int
) -> None:
    trace = merged([rank(0, [mine] * 3), rank(1, [theirs] * 3, names=names)])

    assert sum(each.many for each in combined_with_others(trace)) == many


def test_gradients_that_are_exchanged_in_the_first_step_only_are_left_out() -> None:
    mine, theirs = [(3.0, 4.0), (5.0, 6.0)], [(4.0, 3.0), (5.0, 6.0)]

    assert combined_with_others(merged([rank(0, mine), rank(1, theirs)])) == ()
