"""Acts of older traces, whose facts were JSON, are rows of the tables of their kinds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, strategies as st

from gradscope.trace.assemble import assemble
from gradscope.trace.load_save import load
from gradscope.trace.schema import (
    ACTS,
    ActFacts,
    AssignedAct,
    CheckpointAct,
    CutAct,
    HookAct,
    LoadedAct,
    OptimizerAct,
    ParamGroupAct,
    ScheduleStepAct,
    SeedAct,
    StepAct,
    columns,
)
from gradscope.trace.table import Block
from gradscope.trace.trace import Trace
from tests.shared.searching import searching

TRACES = Path(__file__).with_name("older_traces")


def opened(*acts: tuple[str, Any]) -> Trace:
    """A trace with these kinds and facts, as version 1.12 had them."""
    texts = [text for kind, facts in acts for text in (kind, orjson.dumps(facts).decode())]
    said = np.empty(len(texts), object)
    said[:] = texts
    many = len(acts)
    ids = np.arange(1, len(texts) + 1)
    strings = Block("string", len(texts), {"id": ids, "text": said})
    rows = {"id": np.arange(many), "kind": ids[::2], "facts": ids[1::2]}
    return Trace(assemble([strings, Block("act", many, rows)]).tables)


@pytest.mark.parametrize(
    ("facts", "typed"),
    [
        ({"by": "detach", "more": True, "written": 7}, CutAct(0, "detach", more=True, written=7)),
        ({"by": "x", "hook": "f", "many": 2}, HookAct(0, "x", "f", 2)),
        (
            {"name": "lr", "what": "setting", "to": None, "there": 0.5},
            AssignedAct(0, "lr", "setting", there=0.5),
        ),
        (
            {"strict": True, "missing": ["a", "b"], "unexpected": [], "many": 3},
            LoadedAct(0, strict=True, missing=("a", "b"), many=3),
        ),
        (
            {"type": "SGD", "groups": [{"lr": 0.1, "many": 2}, {"lr": None, "momentum": 0.9}]},
            OptimizerAct(
                0, "SGD", lr=(0.1, math.nan), weight_decay=(math.nan,) * 2,
                momentum=(math.nan, 0.9), many=(2, 0),
            ),
        ),
        ({"group": {"lr": 0.1, "many": 2}}, ParamGroupAct(0, lr=0.1, many=2)),
        (
            {"lr": [0.1], "none": 1, "many": 2, "moved": [None, 0.5], "alike": [[1, 0.0]]},
            StepAct(
                0, (0.1,), none=1, many=2, moved=(math.nan, 0.5), alike=(1,), alike_to=(0.0,)
            ),
        ),
        ({"lr": [0.1], "metric": None}, ScheduleStepAct(0, (0.1,), watched=True)),
        ({"reentrant": None, "keeps_random": True}, CheckpointAct(0, True, True)),
        ({"seed": 3, "of_": "numpy"}, SeedAct(0, "3", "numpy")),
        ({"seed": None, "by": "fork_rng"}, SeedAct(0, by="fork_rng")),
    ],
)  # fmt: skip
def test_facts_are_columns(facts: dict[str, Any], typed: ActFacts) -> None:
    trace = opened((typed.KIND, facts))

    assert repr([*trace.rows(type(typed))]) == repr([typed])
    assert "facts" not in trace.tables["act"].data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
NAMES = sorted({each.name for kind in ACTS.values() for each in columns(kind)} - {"id"})
OLDER = ["groups", "group", "of_"]


@searching(100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*ACTS, "of a later version"]),
            JSON | st.dictionaries(st.sampled_from([*NAMES, *OLDER]), JSON, max_size=4),
        ),
        max_size=4,
    )
)
def test_whatever_facts_are_the_trace_opens(acts: list[tuple[str, Any]]) -> None:
    small = [(kind, facts) for kind, facts in acts if _is_small(facts)]
    trace = opened(*small, ("cut", {}))

    for kind in (each for each in ACTS.values() if each.TABLE):
        ids = [
            number for number, (name, _) in enumerate([*small, ("cut", {})]) if name == kind.KIND
        ]
        assert [row.id for row in trace.rows(kind)] == ids


def _is_small(facts: Any) -> bool:
    try:
        orjson.dumps(facts)
    except TypeError:  # more than 64 bits
        return False
    return True


def test_an_older_trace_keeps_what_its_acts_say() -> None:
    trace = load(TRACES / "mlp_1_9.json.gz")

    assert trace.version < (1, 13)
    assert [row.lr for row in trace.rows(StepAct)] == [(0.3,)] * len([*trace.rows(StepAct)])
    assert len([*trace.rows(StepAct)]) > 1
