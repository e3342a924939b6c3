"""The samples print the same when the body of their loop is captured, whole or in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.fast.capture.loops import run

SAMPLES = Path(__file__).parents[4] / "samples"
ALL = sorted(str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.py"))
REPLAYED = {"gan": 1, "gcn": 1, "gpt": 1, "lstm": 1, "maml": 1, "mlp": 1, "pinn": 1, "resnet": 1}
"""In so many pieces, at least, each sample's step is replayed again and again."""
STEPS, FEW = 20, {"resnet": 7}


@pytest.mark.parametrize("name", ALL)
def test_a_sample_prints_the_same(name: str) -> None:
    path = SAMPLES / name
    steps = FEW.get(path.stem, STEPS)
    eager, _, _ = run(path, steps, captured=False)
    captured, replayed, _ = run(path, steps, captured=True)

    assert captured == eager
    assert sum(count >= steps // 2 - 1 for count in replayed) >= REPLAYED.get(path.stem, 0)


def test_these_are_all_samples() -> None:
    assert len(ALL) >= 20
