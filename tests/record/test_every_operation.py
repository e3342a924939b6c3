"""Every operation gives the same when it is watched, and its trace keeps the rules."""

from __future__ import annotations

import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.spec import check
from tests.runtime import oracle
from tests.runtime.ops.families import CALLS, asked_of, reals
from tests.runtime.oracle import Sample

pytestmark = pytest.mark.filterwarnings("ignore")


def outcome(sample: Sample) -> tuple[object, object]:
    """The result and the gradients of a call."""
    arrays = oracle.arrays_for(sample, "float64")
    torch.manual_seed(0)
    run = oracle.ours().run(sample, arrays, reals(sample))
    if not sample.grad:
        return run.result, ()
    return run.result, oracle.grads_of(run, oracle.seeds_for(run, 2), create_graph=False)


@asked_of(CALLS, on_both=False)
def test_watching_changes_nothing_and_breaks_no_rule(sample: Sample) -> None:
    expected = outcome(sample)
    with record(level="values") as recording:
        found = outcome(sample)

    oracle.assert_same(found, expected, 1.0, "watched")
    assert check(recording.trace()) == []
