"""A derivative that is wrong by a thousandth is noticed by the kept answers, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.runtime.core.calls.late import node_class
from gradscope.runtime.core.rows.operation import REGISTRY
from tests.runtime import oracle
from tests.runtime.answers import held_samples
from tests.runtime.answers.kept import differing
from tests.runtime.answers.test_operations import by_family, done
from tests.runtime.core.ops.op_db.families import DIFFERENTIABLE
from tests.runtime.oracle import Sample

pytestmark = pytest.mark.filterwarnings("ignore")

WRONG = 1.001
RUNS = ("run_arrays", "run_tensors")
CONSTANT = "Angle Bernoulli Ceil Fill Floor Normal Round Sgn Sign Trunc Uniform Zero"
REFUSING = "CdistBackward EmbeddingBagBackward PdistBackward"
NOTHING_TO_SPOIL = {f"{name}Backward0" for name in f"{CONSTANT} {REFUSING}".split()} | {
    "DivBackward2",  # rounded
    "FillBackward2",
    "RoundBackward1",
    "NotImplemented",
}
"""Nodes whose gradients are zeros, or that have none and say so."""
MOST = 12
"""So many of the samples in which a node runs are asked whether they notice."""

Question = tuple[str, str, Sample]
"""The family of a sample, its name, and the sample."""


def questions() -> list[Question]:
    families = by_family("operations", DIFFERENTIABLE)
    held = {name: sample for name, sample in held_samples.cases() if sample.grad}
    return [
        (family, name, sample)
        for family, samples in {**families, "operations/held": held}.items()
        for name, sample in samples.items()
    ]


def classes() -> set[Any]:
    """The classes of all nodes that operations have."""
    return {node_class(row) for row in REGISTRY.values() if row.node_name} - {None}


def where_they_run() -> dict[Any, list[Question]]:
    """The samples in which a node of a class runs, in the first or the second backward."""
    found: dict[Any, list[Question]] = {cls: [] for cls in classes()}
    running: set[Any] = set()

    def noting(cls: Any, right: Callable[..., Any]) -> Callable[..., Any]:
        def run(node: Any, grads: Any) -> Any:
            running.add(cls)
            return right(node, grads)

        return run

    with pytest.MonkeyPatch.context() as patch:
        for cls in found:
            for name in RUNS:
                patch.setattr(cls, name, noting(cls, getattr(cls, name)))
        for question in questions():
            running.clear()
            done(oracle.ours(), question[2])
            for cls in running:
                found[cls].append(question)
    return found


def spoilt(right: Callable[..., Any]) -> Callable[..., Any]:
    """What a node returns, with each gradient a little too large."""

    def run(node: Any, grads: Any) -> Any:
        return tuple(grad if grad is None else grad * WRONG for grad in right(node, grads))

    return run


def noticed(cls: Any, asked: list[Question]) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        for name in RUNS:
            patch.setattr(cls, name, spoilt(getattr(cls, name)))
        return any(differs(*question) for question in asked)


def differs(family: str, name: str, sample: Sample) -> bool:
    found = differing(family, {name: sample}, lambda each: done(oracle.ours(), each), 1.0)
    return any("is not asked any more" not in each for each in found)


def test_every_wrong_derivative_is_noticed() -> None:
    ran = {cls: asked for cls, asked in where_they_run().items() if asked}

    unnoticed = {cls.__name__ for cls, asked in ran.items() if not noticed(cls, asked[:MOST])}

    assert len(ran) > 400
    assert sorted(unnoticed - NOTHING_TO_SPOIL) == []
