"""Every operation gives the same when it is watched, and its trace keeps the rules."""

from __future__ import annotations

import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.spec import check
from tests.runtime import oracle
from tests.runtime.core.ops.op_db.families import CALLS, ask, chosen, in_families, reals
from tests.runtime.oracle import Sample

pytestmark = pytest.mark.filterwarnings("ignore")

FAMILIES = in_families(CALLS)


def outcome(sample: Sample) -> tuple[object, object]:
    """The result and the gradients of a call."""
    arrays = oracle.arrays_for(sample, "float64")
    torch.manual_seed(0)
    run = oracle.ours().run(sample, arrays, reals(sample))
    if not sample.grad:
        return run.result, ()
    return run.result, oracle.grads_of(run, oracle.seeds_for(run, 2), create_graph=False)


@pytest.mark.parametrize("family", FAMILIES)
def test_watching_changes_nothing_and_breaks_no_rule(
    family: str, request: pytest.FixtureRequest
) -> None:
    calls = chosen(FAMILIES[family], request)
    expected = {name: outcome(sample) for name, sample in calls}
    with record(level="values") as recording:
        found = {name: outcome(sample) for name, sample in calls}

    ask(
        lambda name: oracle.assert_same(found[name], expected[name], 1.0, "watched"),
        ((name, name) for name in found),
    )
    assert check(recording.trace()) == []
