"""The samples print the same when the body of their loop is captured, whole or in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.capture.loops import run

SAMPLES = Path(__file__).parents[3] / "samples"
REPLAYED = {"gan": 1, "gcn": 1, "gpt": 1, "maml": 1, "mlp": 1, "pinn": 1}
"""In so many pieces, at least, each sample's step is replayed ten times or more."""
STEPS = 20


@pytest.mark.parametrize(
    "name", ["mlp", *(f"models/{name}" for name in ("dqn", "gan", "gcn", "gpt", "maml", "pinn"))]
)
def test_a_sample_prints_the_same(name: str) -> None:
    path = SAMPLES / f"{name}.py"
    eager, _, _ = run(path, STEPS, captured=False)
    captured, replayed, _ = run(path, STEPS, captured=True)

    assert captured == eager
    assert sum(count >= 9 for count in replayed) >= REPLAYED.get(path.stem, 0)
