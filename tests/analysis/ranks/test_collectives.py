"""Collectives of several ranks, aligned by group and order, and the rules about them."""

from __future__ import annotations

import pytest

from gradscope.analysis.findings import Certainty
from gradscope.analysis.ranks.collectives import grouped_calls
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.ranks.merging.one_rank import only
from gradscope.analysis.ranks.whose import listed
from gradscope.analysis.report import inspect
from gradscope.trace.schema import NONE, Collective, Phase, ProcessGroup, Span
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

EVERY = ProcessGroup(0, "0", "default_pg", (0, 1))


def rank(
    number: int,
    *calls: tuple[str, tuple[int, ...]],
    groups: tuple[ProcessGroup, ...] = (EVERY,),
    called_in: tuple[int, ...] = (),
    ends: bool = True,
    exit: str = "ok",
) -> Trace:
    """A rank that made these calls, each with a shape; the last may not have ended."""
    rows: list[Span | Collective | ProcessGroup] = [*groups]
    for at, (name, shape) in enumerate(calls):
        end = NONE if at == len(calls) - 1 and not ends else 10 * at + 5
        group = called_in[at] if called_in else 0
        rows += [
            Span(at, name, Phase.COLLECTIVE, NONE, 0, NONE, 10 * at, end),
            Collective(at, group, NONE, shape, "float32"),
        ]
    facts = {"rank": number, "host": "one", "level": "engine", "exit": exit}
    return trace_of(*rows, meta=facts)


def found(*ranks: Trace) -> list[str]:
    """What is found about these ranks."""
    report = inspect(merged(ranks), rules=["GS001", "GS002"])
    assert not report.unchecked
    return [f"{each.rule}: {each.message}" for each in report.findings]


SUM, SEND = ("all_reduce", (3,)), ("broadcast", (3,))


def test_ranks_that_call_the_same_have_no_finding() -> None:
    assert found(rank(0, SUM, SEND), rank(1, SUM, SEND)) == []
    assert found(rank(0, SUM, ends=False), rank(1, SUM, ends=False)) == []


def test_the_first_calls_that_differ_are_named() -> None:
    [words] = found(rank(0, SUM, SUM, SUM), rank(1, SUM, SEND, SEND))

    assert words == (
        "GS001: Call 2 of group default_pg differs: rank 0 called all_reduce of [3] float32; "
        "rank 1 called broadcast of [3] float32"
    )


@pytest.mark.parametrize(
    ("one", "other", "many"),
    [
        (("all_reduce", (3,)), ("all_reduce", (4,)), 1),
        (("all_reduce", (6,)), ("all_reduce", (2, 3)), 0),
        (("all_to_all", (3,)), ("all_to_all", (4,)), 0),
        (("all_reduce", (3,)), ("all_reduce, asynchronous", (3,)), 0),
    ],
)
def test_tensors_must_have_the_same_size_where_they_are_summed(
    one: tuple[str, tuple[int, ...]], other: tuple[str, tuple[int, ...]], many: int
) -> None:
    assert len(found(rank(0, one), rank(1, other))) == many


def test_a_rank_that_never_came_is_named_with_its_ending() -> None:
    ranks = rank(0, SUM, SUM, ends=False), rank(1, SUM, exit="ValueError: bad batch")
    [finding] = inspect(merged(ranks), rules=["GS002"]).findings

    assert finding.message == (
        "Rank 1 never called all_reduce (call 2 of group default_pg), in which rank 0 waited"
    )
    assert finding.why.startswith("rank 1 ended with: ValueError: bad batch; ")
    assert finding.why.endswith("the last call that all ranks made was all_reduce")
    assert finding.certainty is Certainty.CERTAIN


def test_a_call_that_failed_waited_and_one_that_ended_well_did_not() -> None:
    assert len(found(rank(0, SUM, SUM, exit="RuntimeError: timeout"), rank(1, SUM))) == 1
    assert found(rank(0, SUM, SUM), rank(1, SUM)) == []
    assert found(rank(0, SUM, SUM, SEND, exit="RuntimeError: x"), rank(1, SUM)) == []


def test_groups_are_aligned_one_by_one() -> None:
    pair = ProcessGroup(1, "pair", "mesh_dp", (0, 1))
    own = [ProcessGroup(2, "half", "mesh_tp", (each, each + 2)) for each in (0, 1)]
    first = rank(0, SUM, SEND, groups=(EVERY, pair), called_in=(0, 1))
    second = rank(1, SEND, SUM, groups=(EVERY, pair), called_in=(1, 0))

    assert found(first, second) == []
    aligned = grouped_calls(merged([first, second]))
    assert [(each.described, len(each.together)) for each in aligned] == [
        ("default_pg", 1), ("mesh_dp", 1),
    ]  # fmt: skip
    ranks = [
        rank(each, SUM if each % 2 else SEND, groups=(own[each % 2],), called_in=(2,))
        for each in range(4)
    ]
    assert found(*ranks) == []
    assert [each.members for each in grouped_calls(merged(ranks))] == [(0, 2), (1, 3)]


def test_ranks_without_a_trace_are_not_missed() -> None:
    large = ProcessGroup(0, "0", "default_pg", (0, 1, 2))
    ranks = [rank(each, SUM, groups=(large,), ends=False) for each in (0, 2)]

    assert found(*ranks) == []
    assert found(ranks[0]) == []


def test_one_rank_of_a_merged_trace_has_its_own_rows() -> None:
    both = merged([rank(0, SUM, SEND), rank(1, SUM)])

    assert len(only(both, 0).table(Collective)) == 2
    assert len(only(both, 1).table(Collective)) == 1
    assert [each.members for each in only(both, 1).rows(ProcessGroup)] == [(0, 1)]


def test_numbers_of_ranks_are_listed_in_runs() -> None:
    assert listed([3]) == "rank 3"
    assert listed([4, 0, 1, 2]) == "ranks 0 to 2, 4"
    assert listed([1, 2, 5]) == "ranks 1, 2, 5"


MAKE = ("new_group", ())


def test_calls_that_make_groups_are_counted_apart() -> None:
    assert found(rank(0, MAKE, SUM, MAKE), rank(1, SUM)) == []
    assert found(rank(0, MAKE, SUM), rank(1, SUM, MAKE)) == []


def test_a_rank_that_waits_for_one_that_makes_no_group_is_named() -> None:
    [missed] = found(rank(0, SUM, MAKE, ends=False), rank(1, SUM))
    assert missed == (
        "GS002: Rank 1 never called new_group (call 1 of group default_pg that makes groups), in "
        "which rank 0 waited"
    )
    [crossed] = found(
        rank(0, SUM, MAKE, ends=False, exit=""), rank(1, SUM, SUM, ends=False, exit="")
    )
    assert crossed == (
        "GS001: Ranks of group default_pg wait in different collectives: rank 1 waits in "
        "all_reduce; rank 0 waits in new_group"
    )
