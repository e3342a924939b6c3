"""Every operation gives the same when it is watched, and its trace keeps the rules."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.spec import check
from tests.runtime import oracle
from tests.runtime.oracle import SAMPLES, Real, Sample

for _module in pkgutil.iter_modules(importlib.import_module("tests.runtime.ops.samples").__path__):
    importlib.import_module(f"tests.runtime.ops.samples.{_module.name}")

pytestmark = pytest.mark.filterwarnings("ignore")


def outcome(sample: Sample) -> tuple[object, object]:
    """The result and the gradients of a call."""
    arrays = oracle.arrays_for(sample, "float64")
    wanted = [isinstance(given, Real) and sample.grad for given in sample.inputs]
    torch.manual_seed(0)
    run = oracle.ours().run(sample, arrays, wanted)
    if not sample.grad:
        return run.result, ()
    return run.result, oracle.grads_of(run, oracle.seeds_for(run, 2), create_graph=False)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_watching_changes_nothing_and_breaks_no_rule(name: str) -> None:
    for sample in SAMPLES[name]:
        expected = outcome(sample)
        with record(level="values") as recording:
            found = outcome(sample)

        oracle.assert_same(found, expected, 1.0, name)
        assert check(recording.trace()) == []
