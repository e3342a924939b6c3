"""`gradscope verify`: its table, its JSON and its exit codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest

from gradscope.record.acts.kept.node_values import write
from gradscope.watch.in_place.node_runs import CopiedRun, NodeArray
from tests.cli.conftest import Line


def kept(path: str, *factors: float) -> None:
    """Runs of tanh that returned these multiples of their gradient."""
    result, grad = np.linspace(-0.5, 0.5, 5, dtype=np.float32), np.ones(5, np.float32)
    runs = []
    for factor in factors:
        run = CopiedRun("TanhBackward0", node=1, stack=-1, shapes=[(5,)])
        run.grads, run.saved = (
            [NodeArray(grad, "float32")],
            {"result": NodeArray(result, "float32")},
        )
        run.returned = [NodeArray(np.float32(factor) * (1 - result * result), "float32")]
        runs.append(run)
    write(Path(path), runs)


def test_runs_that_agree_are_counted_and_the_command_succeeds(run: Line) -> None:
    kept("mean.values.npz", 1, 1)

    ran = run("verify", "--plain", "mean.values.npz")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("runs of nodes computed again: 2 agree\n")


def test_a_run_that_differs_is_shown_first_and_the_command_fails(run: Line) -> None:
    kept("other.npz", 1, 2)

    ran = run("verify", "--plain", "other.npz")

    _, _, first, second = ran.out.splitlines()
    assert ran.code == 1
    assert first.split()[:2] == ["differ", "TanhBackward0"]
    assert "1.0e+00" in first
    assert second.split()[:2] == ["agree", "TanhBackward0"]


def test_the_json_has_one_object_for_each_run(run: Line) -> None:
    kept("other.npz", 1, 2)

    ran = run("verify", "--json", "other.npz")

    found = orjson.loads(ran.out)["runs"]
    assert [each["found"] for each in found] == ["agrees", "kernel"]
    assert found[1]["times"] == pytest.approx(2)


def test_values_of_another_recording_are_refused(run: Line) -> None:
    kept("mean.values.npz", 1, 1)

    ran = run("verify", "mean.json")

    assert ran.code == 2
    assert "mean.values.npz was written by another run than mean.json" in ran.err


def test_a_trace_without_kept_values_says_how_to_keep_them(run: Line) -> None:
    ran = run("verify", "nan.json")

    assert ran.code == 2
    assert "--keep-values" in ran.err
