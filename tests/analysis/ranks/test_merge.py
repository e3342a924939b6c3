"""Traces of several ranks as one, and each rank's part of the whole."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.analysis.ranks.merge import merged
from gradscope.analysis.ranks.one_rank import only
from gradscope.errors import UsageError
from gradscope.record.recorder import mark, record
from gradscope.trace.load_save import decode, encode
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import (
    EVENTS,
    TABLES,
    GraphTask,
    Mark,
    Module,
    Node,
    NodeBegin,
    Phase,
    Span,
    Thread,
)
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def trained(rank: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """A rank's trace, as a recorder writes it: values, hooks, a backward in a backward."""
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "4")
    with record(level="values") as recording:
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(steps):
            mark(f"step of {rank}")
            optimizer.zero_grad()
            out = model(torch.ones(2, 3)).tanh()
            out.register_hook(lambda grad: grad * 2)
            (slope,) = torch.autograd.grad(out.sum(), model.weight, create_graph=True)
            (slope.sum() + out.sum()).backward()
            optimizer.step()
    return recording.trace()


def row_count(trace: Trace) -> dict[str, int]:
    return {name: len(trace.tables[name]) for name in TABLES if name not in {"string", "meta"}}


def names_run(trace: Trace) -> list[str]:
    nodes = trace.table(Node)
    return [nodes.row(event.node).name for event in trace.rows(NodeBegin)]


def cells(trace: Trace) -> dict[str, Any]:
    """All numbers of a trace that are neither ids nor text."""
    found: dict[str, Any] = {}
    for name in {"op", "node", "tensor", "value", *(kind.TABLE for kind in EVENTS.values())}:
        for column, data in trace.tables[name].data.items():
            if column in {"shape", "sequence_nr", "bytes", "mean", "remaining", "depth", "index"}:
                found[f"{name}.{column}"] = (
                    data.tuples() if isinstance(data, Ragged) else list(data)
                )
    return found


def test_a_whole_keeps_every_rule_and_the_rows_of_all_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [trained(rank, steps, monkeypatch) for rank, steps in ((2, 3), (0, 2))]

    whole = decode(encode(merged(parts)))

    assert check(whole) == []
    counts = [row_count(part) for part in parts]
    assert {name: n for name, n in row_count(whole).items() if name != "device"} == {
        name: counts[0][name] + counts[1][name] for name in counts[0] if name != "device"
    }
    assert [(thread.rank, thread.name) for thread in whole.rows(Thread)] == [
        (0, "rank 0 MainThread"),
        (2, "rank 2 MainThread"),
    ]
    assert [each["rank"] for each in whole.meta["ranks"]] == [0, 2]
    assert whole.meta["clock"] == "ranks ran on one machine and share its clock"


def test_of_a_whole_each_rank_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [trained(rank, rank + 1, monkeypatch) for rank in range(3)]

    whole = decode(encode(merged(parts)))

    for rank, part in enumerate(parts):
        again = only(whole, rank)
        assert check(again) == []
        assert row_count(again) == row_count(part)
        assert names_run(again) == names_run(part)
        np.testing.assert_equal(cells(again), cells(part))
        assert {each.name for each in again.rows(Mark)} == {f"step of {rank}"}
        assert (again.meta["rank"], "ranks" in again.meta) == (rank, False)
    assert only(whole, None) is whole


def test_events_of_ranks_are_ordered_by_one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [trained(rank, 1, monkeypatch) for rank in range(2)]

    whole = merged(parts)

    begins = [(event.seq, event.t) for event in whole.rows(NodeBegin)]
    assert begins == sorted(begins)
    assert all(earlier[1] <= later[1] for earlier, later in itertools.pairwise(begins))
    bases = [part.meta["clock_base"] for part in parts]
    assert whole.meta["clock_base"] == min(bases)
    (first, *_), (second, *_) = (part.rows(GraphTask) for part in parts)
    tasks = list(whole.rows(GraphTask))
    assert tasks[0].begin == first.begin
    assert tasks[2].begin == second.begin + bases[1] - bases[0]


def distributed(rank: int, host: str, ends: list[int], base: int, kind: str) -> Trace:
    tasks = [GraphTask(nr, thread=0, begin=end - 5, end=end) for nr, end in enumerate(ends)]
    rows = [Thread(0, "main"), Module(0, "", kind), *tasks]
    return trace_of(*rows, meta={"rank": rank, "host": host, "clock_base": base})


def test_clocks_of_several_machines_are_matched_by_backwards_that_end_together() -> None:
    """The second machine's clock is a second ahead; one of its backwards did not reduce."""
    kind = "DistributedDataParallel"
    first = distributed(0, "a", [100, 200, 300], 1_000, kind)
    second = distributed(1, "b", [150, 251, 900], 1_000_000_950, kind)

    whole = merged([second, first])

    ends = [task.end for task in whole.rows(GraphTask)]
    assert ends == [151, 251, 351, 150, 251, 900]
    assert whole.meta["clock"].startswith("by the ends of 3 backwards of DistributedDataParallel")


def test_clocks_of_several_machines_are_matched_by_collectives_first() -> None:
    """What went on by itself ended nothing together, nor did what two ranks passed on."""
    spans = [("all_reduce", 10), ("barrier", 20), ("all_reduce, asynchronous", 99)]
    traces = [
        trace_of(
            Thread(0, "main"),
            *[
                Span(nr, name, Phase.COLLECTIVE, thread=0, begin=1, end=end + late * (end < 99))
                for nr, (name, end) in enumerate([*spans, (("send", "recv")[rank], 99)])
            ],
            meta={"rank": rank, "host": f"machine {rank}", "clock_base": 0},
        )
        for rank, late in enumerate((0, 7))
    ]

    whole = merged(traces)

    assert [span.end for span in whole.rows(Span)] == [17, 27, 106, 106, 17, 27, 99, 99]
    said = "by the ends of 2 collectives, which ranks end together (at most 0 ms apart)"
    assert whole.meta["clock"] == said


@pytest.mark.parametrize(
    ("kind", "ends"), [("Linear", [150, 250]), ("DistributedDataParallel", [150])]
)
def test_clocks_that_nothing_matches_are_taken_at_their_word(kind: str, ends: list[int]) -> None:
    first = distributed(0, "a", [100, 200], 1_000, kind)
    second = distributed(1, "b", ends, 1_500, kind)

    whole = merged([first, second])

    assert whole.meta["clock"] == "by the clocks of several machines, which may differ"
    assert [task.end for task in whole.rows(GraphTask)][2:] == [end + 500 for end in ends]


def test_facts_are_those_of_all() -> None:
    metas: list[dict[str, Any]] = [
        {
            "rank": 0,
            "level": "values",
            "absent": ["wait"],
            "observed": ["node", "value"],
            "exit": "ok",
        },
        {"rank": 1, "level": "engine", "absent": ["value"], "observed": ["node"], "exit": "no"},
    ]
    metas[0] |= {"dropped": {"steps": 2}, "unfinished": 1}
    metas[1] |= {"dropped": {"steps": 3}, "exit_code": 3, "children": [{"kind": "fork"}]}

    meta = merged([trace_of(meta=each) for each in metas]).meta

    assert (meta["level"], meta["absent"], meta["observed"]) == (
        "engine",
        ["value", "wait"],
        ["node"],
    )
    assert (meta["exit"], meta["exit_code"]) == ("rank 1: no", 3)
    assert (meta["dropped"], meta["unfinished"]) == ({"steps": 5}, 1)
    assert meta["children"] == [{"kind": "fork"}]


def test_traces_of_one_rank_or_already_merged_are_refused() -> None:
    traces = [trace_of(meta={"rank": rank}) for rank in range(2)]

    with pytest.raises(UsageError, match="not of different ranks, but of ranks 1, 1"):
        merged([traces[1], traces[1]])
    with pytest.raises(UsageError, match="not of different ranks"):
        merged([merged(traces), trace_of(meta={"rank": 5})])
    with pytest.raises(UsageError, match="has no rank 7: it has 0, 1"):
        only(merged(traces), 7)
    assert only(traces[1], 1) is traces[1]


def test_traces_of_several_attempts_are_refused() -> None:
    traces = [
        trace_of(meta={"rank": rank} | ({"restarts": restarts} if restarts else {}))
        for restarts, ranks in ((0, (0, 1, 2)), (2, (0, 1)))
        for rank in ranks
    ]

    with pytest.raises(UsageError) as refused:
        merged(traces)
    assert str(refused.value) == (
        "these traces are of several attempts of one program: the first attempt has ranks 0 to 2; "
        "restart 2 has ranks 0, 1; take the files of one attempt: trace.rank*.json, or "
        "trace.restart1.rank*.json"
    )
    assert merged(traces[3:]).meta["restarts"] == 2
