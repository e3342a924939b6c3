"""The clocks of ranks on several machines, aligned by what ranks end together."""

from __future__ import annotations

from collections.abc import Iterable

from gradscope.analysis.ranks.clocks import Clocks, clocks
from gradscope.trace.schema import NONE, Collective, Phase, ProcessGroup, Span
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

Call = tuple[str, tuple[int, ...], int]
"""Its name, the ranks of its group, and when it ended by a clock that is right."""


def rank(number: int, host: str, late: int, *calls: Call) -> Trace:
    """A rank that made these calls, on a machine whose clock is late or early."""
    groups = {
        members: ProcessGroup(at, f"group {members}", "", members)
        for at, members in enumerate(dict.fromkeys(members for _, members, _ in calls))
    }
    rows: list[ProcessGroup | Span | Collective] = [*groups.values()]
    for at, (name, members, end) in enumerate(calls):
        ended = NONE if end == NONE else end + late
        rows.append(Span(at, name, Phase.COLLECTIVE, NONE, 0, NONE, 100 * at, ended))
        rows.append(Collective(at, groups[members].id))
    return trace_of(*rows, meta={"rank": number, "host": host, "clock_base": 5_000})


def aligned(traces: Iterable[Trace]) -> Clocks:
    return clocks({trace.meta["rank"]: trace for trace in traces})


ALL = (0, 1, 2, 3)


def test_collectives_of_a_subgroup_do_not_move_those_of_other_groups() -> None:
    """By order alone, the first call of rank 0 would belong to the first one of rank 2."""
    own = [("all_reduce", (0, 1), 110), ("all_reduce", (0, 1), 120)]
    both = [("all_reduce", ALL, 200), ("all_reduce", ALL, 300)]
    found = aligned([
        rank(0, "a", 0, *own, *both),
        rank(1, "a", 0, *own, *both),
        rank(2, "b", 70, both[0], ("all_reduce", (2, 3), 250), both[1]),
        rank(3, "b", 70, both[0], ("all_reduce", (2, 3), 250), both[1]),
    ])  # fmt: skip

    said = "by the ends of 2 collectives, which ranks end together (at most 0 ms apart)"
    assert (found.shifts, found.base, found.words) == ((70, 70, 0, 0), 4_930, said)


def test_machines_without_a_common_group_are_aligned_through_others() -> None:
    first, second = ("barrier", (0, 1), 10), ("all_gather", (1, 2), 20)
    found = aligned([
        rank(0, "a", 0, first), rank(1, "b", 30, first, second), rank(2, "c", -40, second),
    ])  # fmt: skip

    assert found.shifts == (30, 0, 70)
    alone = aligned([rank(0, "a", 0, first), rank(1, "b", 30, first), rank(2, "c", -40)])
    assert alone.words == "by the clocks of several machines, which may differ"


def test_ranks_of_one_machine_keep_their_common_clock() -> None:
    """A rank that was slow to return from a call does not get a clock of its own."""
    calls = [("all_reduce", ALL, end) for end in (100, 200, 300)]
    slow = [("all_reduce", ALL, end) for end in (160, 200, 300)]
    found = aligned([
        rank(0, "a", 0, *calls), rank(1, "a", 0, *slow),
        rank(2, "b", 40, *calls), rank(3, "b", 40, *calls),
    ])  # fmt: skip

    assert found.shifts == (40, 40, 0, 0)
    assert found.words.endswith("(at most 6e-05 ms apart)")


def test_the_source_of_a_broadcast_leaves_it_early() -> None:
    group = (0, 1)
    early, late = ("broadcast", group, 10), ("broadcast", group, 900)
    met = ("all_reduce", group, 1_000)
    found = aligned([rank(0, "a", 0, early, early, met), rank(1, "b", 5, late, late, met)])

    assert found.shifts == (5, 0)
    assert found.words.startswith("by the ends of 1 collectives")
    without = aligned([rank(0, "a", 0, early), rank(1, "b", 5, late)])
    assert without.words == "by the clocks of several machines, which may differ"


def test_calls_that_did_not_end_or_went_on_by_themselves_show_nothing() -> None:
    group = (0, 1)
    goes_on, met = "all_reduce, asynchronous", ("all_reduce", group, 100)
    found = aligned([
        rank(0, "a", 0, (goes_on, group, 50), met, ("all_reduce", group, NONE)),
        rank(1, "b", 9, (goes_on, group, 90), met, ("all_reduce", group, 700)),
    ])  # fmt: skip

    assert found.shifts == (9, 0)
