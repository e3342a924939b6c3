"""Which rank waits for which, and the rank of each row of a merged trace."""

from __future__ import annotations

import numpy as np

from gradscope.analysis.program.modules import modules
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.ranks.merging.one_rank import only
from gradscope.analysis.ranks.waits import NO_WAITS, RankWait, rank_waits
from gradscope.analysis.ranks.whose import RankOf, on_ranks
from gradscope.analysis.report import inspect
from gradscope.analysis.timing.by_step import step_facts
from gradscope.scene.graph.backwards import title_of
from gradscope.trace.schema import NONE, GraphTask, Phase, Span, Step
from gradscope.trace.trace import Trace
from tests.analysis.ranks.several_ranks import several_ranks
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import two_layers


def test_a_rank_waits_until_the_last_one_enters() -> None:
    found = rank_waits(several_ranks(3, late={(1, 2): 120_000, (0, 1): 5_000}))

    assert [(wait.rank, wait.on, wait.step, wait.ns) for wait in found.waits] == [
        (0, 1, 2, 120_000), (2, 1, 2, 120_000), (1, 0, 1, 5_000), (2, 0, 1, 5_000),
    ]  # fmt: skip
    assert (found.collectives, found.unmatched) == (3, 0)


def called(rank: int, *calls: tuple[str, int, int]) -> Trace:
    """A rank that called collectives: name, begin, end."""
    spans = [
        Span(at, name, Phase.COLLECTIVE, NONE, 0, NONE, begin, end)
        for at, (name, begin, end) in enumerate(calls)
    ]
    return trace_of(*spans, meta={"rank": rank, "host": "one"})


def waits_of(*traces: Trace) -> list[tuple[int, int, int]]:
    return [(wait.rank, wait.on, wait.ns) for wait in rank_waits(merged(traces)).waits]


def test_a_call_that_ended_before_another_rank_entered_did_not_wait_for_it() -> None:
    source, other = called(0, ("broadcast", 10, 12)), called(1, ("broadcast", 20, 30))

    assert waits_of(source, other) == []
    assert waits_of(called(0, ("broadcast", 10, 22)), other) == [(0, 1, 10)]


def test_a_call_that_did_not_end_waits_and_an_asynchronous_one_does_not() -> None:
    late = called(1, ("all_reduce", 20, 30))

    assert waits_of(called(0, ("all_reduce", 10, NONE)), late) == [(0, 1, 10)]
    asynchronous = "all_reduce, asynchronous"
    ranks = [called(rank, (asynchronous, 10 + 10 * rank, 40)) for rank in (0, 1)]
    assert waits_of(*ranks) == []


def test_calls_are_matched_as_long_as_all_ranks_call_the_same() -> None:
    ranks = [
        called(0, ("barrier", 0, 30), ("gather", 40, 60), ("barrier", 70, 90)),
        called(1, ("barrier", 20, 30), ("scatter", 50, 60), ("barrier", 80, 90)),
    ]
    found = rank_waits(merged(ranks))

    assert found.waits == (
        RankWait(0, 1, "barrier", "", step=NONE, span=0, place="", begin=0, ns=20),
    )
    assert (found.collectives, found.unmatched) == (1, 4)


def test_sends_and_receives_are_left_out_of_the_order() -> None:
    stages = [
        called(0, ("send", 0, 30), ("functional all_reduce, asynchronous", 35, 36),
               ("barrier", 70, 90)),
        called(1, ("recv", 20, 30), ("batch_isend_irecv, asynchronous", 40, 41),
               ("barrier", 80, 90)),
    ]  # fmt: skip

    assert waits_of(*stages) == [(0, 1, 10)]
    assert rank_waits(merged(stages)).unmatched == 0


def test_one_process_waits_for_nobody() -> None:
    assert rank_waits(called(0, ("barrier", 0, 30))) == NO_WAITS
    assert rank_waits(only(several_ranks(late={(1, 2): 9_000}), 0)) == NO_WAITS


def test_every_row_has_its_rank() -> None:
    trace = several_ranks(2, steps=2)
    ranks = trace.once(RankOf)
    steps = trace.table(Step).array("id")

    assert ranks.numbers == (0, 1)
    assert ranks.of(Step.TABLE, steps).tolist() == [0, 0, 1, 1]
    assert ranks.of(Step.TABLE, np.array([NONE, 99])).tolist() == [NONE, NONE]
    tasks = {task.id: number for number, task in enumerate(trace.rows(GraphTask))}
    titles = [title_of(trace, task, tasks) for task in trace.rows(GraphTask)]
    assert [title.partition(", ")[0] for title in titles] == ["rank 0"] * 2 + ["rank 1"] * 2
    assert on_ranks(trace) == " on 2 ranks"
    assert (two_layers().once(RankOf).numbers, on_ranks(two_layers())) == ((), "")


def test_three_steps_of_two_ranks_are_three_steps() -> None:
    trace = several_ranks(2, steps=3)
    summary = inspect(trace).summary

    assert (summary.steps, summary.ranks) == (3, 2)
    assert [(step.number, step.rank) for step in step_facts(trace)] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1),
    ]  # fmt: skip


def test_modules_of_all_ranks_have_the_same_names() -> None:
    names = [(module.rank, module.name) for module in modules(several_ranks(2, alike=True))]

    of_rank = [name for rank, name in names if rank == 0]
    assert "layers0.linear" in of_rank
    assert of_rank == [name for rank, name in names if rank == 1]
