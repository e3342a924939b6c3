"""A merged trace is looked at rank by rank, and what holds of several ranks is said once."""

from __future__ import annotations

import pytest

import gradscope.runtime as torch
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.ranks.merging.one_rank import only
from gradscope.analysis.report import inspect
from gradscope.record.recorder import record
from gradscope.trace.load_save import decode, encode
from gradscope.trace.schema import Value
from gradscope.trace.trace import Trace

STEPS = 3


def rank(number: int, monkeypatch: pytest.MonkeyPatch, *, clears: bool, births: bool) -> Trace:
    """A rank's trace: without `clears` its gradients add up, with `births` there is a NaN."""
    monkeypatch.setenv("RANK", str(number))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with record(level="values") as recording:
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(STEPS):
            if clears:
                optimizer.zero_grad()
            loss = model(torch.ones(2, 3)).pow(2).mean()
            if births:
                loss = loss + (model.weight.sum() * 0).sqrt()
            loss.backward()
            optimizer.step()
    return recording.trace()


def test_what_all_ranks_do_wrong_is_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [rank(each, monkeypatch, clears=False, births=False) for each in (0, 1)]
    (alone,) = inspect(both[0]).findings

    report = inspect(merged(both))

    (found,) = report.findings
    assert found.message == f"{alone.message} (on all 2 ranks)"
    assert (found.rule, found.site, found.why) == (alone.rule, alone.site, alone.why)
    assert report.summary.steps == STEPS


def test_what_one_rank_does_wrong_is_said_of_that_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = [rank(each, monkeypatch, clears=True, births=each == 1) for each in (0, 1)]
    alone = inspect(traces[1]).findings

    whole = merged(traces)
    found = inspect(whole).findings

    assert alone
    assert [each.message for each in found] == [f"{each.message} (on rank 1)" for each in alone]
    rows = [row for each in found for row in each.evidence if row.table == Value.TABLE]
    first, end = whole.meta["ranks"][1]["ids"][Value.TABLE]
    assert rows
    assert all(first <= row.id < end for row in rows)


def test_only_the_rank_whose_trace_is_cut_off_is_incomplete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    traces = [rank(each, monkeypatch, clears=True, births=False) for each in (0, 1)]
    traces[1].truncated = True

    for whole in (merged(traces), decode(encode(merged(traces)))):
        [found] = [each for each in inspect(whole).findings if each.rule == "GS101"]

        assert found.message.endswith("(on rank 1)")
        assert [only(whole, each).truncated for each in (0, 1)] == [False, True]
