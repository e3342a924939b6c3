"""Of ranks with equal rows one is checked, and all others have its findings."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradscope
import gradscope.runtime as torch
from gradscope.analysis.findings import Finding
from gradscope.analysis.ranks import findings as of_ranks
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.ranks.merging.one_rank import RankPart, equal_parts, parts
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import Rule
from gradscope.trace.load_save import decode, encode
from gradscope.trace.ragged import Data
from gradscope.trace.schema import NONE, Act, SeedAct, Thread
from gradscope.trace.schema.declare import TABLES, columns
from gradscope.trace.table import Table
from gradscope.trace.trace import Trace
from tests.analysis.rules.test_snippets import EVERY_RULE, snippets
from tests.shared.example_traces import nan_in_backward

OF_ONE_RANK = [rule for rule in all_rules() if rule.always]


def recorded(snippet: str, folder: Path, level: str = "engine") -> Trace:
    """A trace without values of tensors, if they are not asked for."""
    script = folder / "train.py"
    script.write_text(snippet, encoding="utf-8")
    recording = gradscope.record(level=level)
    try:
        with warnings.catch_warnings(), recording:
            warnings.simplefilter("always")
            exec(compile(snippet, str(script), "exec"), {"torch": torch, "__name__": "snippet"})
    except (RuntimeError, TypeError):
        pass  # as the rule says
    return recording.trace()


def as_rank(trace: Trace, rank: int, *, times: bool = True) -> Trace:
    """What another rank that does the same would record: other times, seeds and threads."""
    chance = np.random.default_rng(rank)
    given = [data for _, data in _times(trace)]
    known = np.unique(np.concatenate([*given, [0]]))
    known = known[known >= 0]
    now = np.cumsum(chance.integers(1, 1_000_000, len(known))) if times else known
    changed: dict[str, dict[str, Data]] = {}
    for (table, name), data in _times(trace):
        moved = now[np.minimum(np.searchsorted(known, data), len(known) - 1)]
        changed.setdefault(table, {})[name] = np.where(data < 0, data, moved)
    threads = trace.table(Thread)
    changed[Thread.TABLE] = {"native": threads["native"] + rank, "rank": threads["rank"] * 0 + rank}
    made: dict[str, Table[Any]] = {
        name: Table(name, table.row_type, {**table.data, **changed.get(name, {})}, table.strings)
        for name, table in trace.tables.items()
    }
    facts = {**trace.meta, "rank": rank, "world_size": 4, "pid": 100 + rank}
    return Trace(made, version=trace.version, truncated=trace.truncated, facts=facts)


def _times(trace: Trace) -> list[tuple[tuple[str, str], Any]]:
    return [
        ((name, column.name), trace.tables[name].array(column.name))
        for name, row in TABLES.items()
        for column in columns(row)
        if column.time and len(trace.tables[name])
    ]


def alone(trace: Trace) -> tuple[tuple[RankPart, ...], ...]:
    return tuple((part,) for part in trace.once(parts))


def found(trace: Trace, rule: Rule) -> list[tuple[Finding, str]]:
    return [(each, each.id) for each in of_ranks.of_each_rank(trace, rule.findings)]


@EVERY_RULE
def test_findings_are_those_of_checking_each_rank(
    rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = snippets(rule)
    if bad.startswith("gradscope "):
        pytest.skip("a command")
    first, other = recorded(bad, tmp_path), recorded(good, tmp_path)
    ranks = [as_rank(trace, rank) for rank, trace in enumerate((first, other, first, first))]

    for whole in (merged(ranks), decode(encode(merged(ranks)))):
        groups = [[part.rank for part in group] for group in whole.once(equal_parts)]
        together = [found(whole, each) for each in OF_ONE_RANK]
        with monkeypatch.context() as patched:
            patched.setattr(of_ranks, "equal_parts", alone)
            separately = [found(whole, each) for each in OF_ONE_RANK]

        assert together == separately
        assert {0, 2, 3} in map(set, groups)


PROGRAM = """
torch.manual_seed(1)
torch.manual_seed(2)
w = torch.ones(3, requires_grad=True)
for _ in range({steps}):
    (w * {factor}).sum().backward()
"""


def groups_of(*traces: Trace) -> list[list[int]]:
    whole = merged([as_rank(trace, rank) for rank, trace in enumerate(traces)])
    return [[part.rank for part in group] for group in whole.once(equal_parts)]


def test_ranks_with_another_step_operation_or_level_are_checked_themselves(tmp_path: Path) -> None:
    one = recorded(PROGRAM.format(steps=2, factor="2"), tmp_path)
    more = recorded(PROGRAM.format(steps=3, factor="2"), tmp_path)
    other = recorded(PROGRAM.format(steps=2, factor="w"), tmp_path)

    assert groups_of(one, more, one, other) == [[0, 2], [1], [3]]


SEEDED = """
import os
for seed in os.environ["SEEDS"].split():
    torch.manual_seed(int(seed))
"""


def test_other_seeds_do_not_matter_as_long_as_the_same_ones_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = []
    for seeds in ("1 2", "3 4", "5 5"):
        monkeypatch.setenv("SEEDS", seeds)
        traces.append(recorded(SEEDED, tmp_path))
        assert traces[-1].table(SeedAct).texts("seed") == seeds.split()

    assert groups_of(*traces) == [[0, 1], [2]]


def test_a_rank_in_which_two_things_changed_places_is_checked_itself(tmp_path: Path) -> None:
    one = recorded(PROGRAM.format(steps=2, factor="2"), tmp_path)
    swapped = as_rank(one, 0)
    acts = swapped.table(Act)
    times = acts.array("t").copy()
    assert (times[-2:] != NONE).tolist() == [True, True]
    times[-1] = 0
    swapped.tables[Act.TABLE] = Table(Act.TABLE, Act, {**acts.data, "t": times}, acts.strings)

    assert groups_of(one, one, swapped)[0] == [0, 1]


def test_ranks_with_values_are_checked_each() -> None:
    trace = nan_in_backward()

    assert groups_of(trace, trace) == [[0], [1]]


def test_a_rank_whose_trace_is_cut_off_is_checked_itself(tmp_path: Path) -> None:
    one = recorded(PROGRAM.format(steps=2, factor="2"), tmp_path)
    ranks = [as_rank(one, rank) for rank in range(3)]
    ranks[1].truncated = True

    assert [[p.rank for p in group] for group in merged(ranks).once(equal_parts)] == [[0, 2], [1]]
