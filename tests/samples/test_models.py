"""The models in samples/models do on gradscope's runtime what they do on PyTorch."""

from __future__ import annotations

import ast
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from tests.samples.watching import Watched, watched

HERE = Path(__file__).parents[2] / "samples" / "models"
MODELS = sorted(path.stem for path in HERE.glob("*.py"))
LONGEST = 62
STEPS = dict.fromkeys(MODELS, 20) | {"resnet": 2}
"""A network with batch normalization makes much of the last bit, and its steps are long."""
TOO_LONG = {("resnet", "float64")}
"""Half a minute; its layers are compared in double precision in tests/runtime/nn."""
LARGE = {"resnet"}
"""These run in a process of their own, so that half a gigabyte is given back."""
RELATIVE = {"float32": 1e-5, "float64": 1e-10}


def test_there_is_a_model_of_every_kind() -> None:
    assert MODELS == [
        "dqn", "flow", "gan", "gcn", "gpt", "lstm", "maml", "pinn", "resnet", "vae",
    ]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_a_short_script_that_knows_only_torch(name: str) -> None:
    text = (HERE / f"{name}.py").read_text(encoding="utf-8")

    assert len(text.splitlines()) <= LONGEST
    assert ast.get_docstring(ast.parse(text))
    assert "import torch\n" in text
    assert "gradscope" not in text


@cache
def both(name: str, dtype: str) -> tuple[Watched, Watched]:
    """A model on gradscope's runtime and on PyTorch."""
    script = HERE / f"{name}.py"
    steps = str(STEPS[name])
    if name not in LARGE:
        ours, theirs = (watched(script, steps, gradscope=g, dtype=dtype) for g in (True, False))
        return ours, theirs
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        begun = [
            pool.submit(watched, script, steps, gradscope=g, dtype=dtype) for g in (True, False)
        ]
        return begun[0].result(), begun[1].result()


models_in_both_precisions = [
    pytest.mark.torch,
    pytest.mark.parametrize(
        ("name", "dtype"),
        [(name, dtype) for name in MODELS for dtype in RELATIVE if (name, dtype) not in TOO_LONG],
    ),
]


def in_both_precisions(test: object) -> object:
    for mark in models_in_both_precisions:
        test = mark(test)
    return test


@in_both_precisions
def test_losses_are_pytorchs(name: str, dtype: str) -> None:
    ours, theirs = both(name, dtype)

    assert len(ours.losses) >= STEPS[name]
    one, other = np.array(ours.losses), np.array(theirs.losses)
    apart = abs(one - other) / abs(other)
    assert (apart <= RELATIVE[dtype]).all(), apart


@in_both_precisions
def test_graphs_are_pytorchs(name: str, dtype: str) -> None:
    ours, theirs = both(name, dtype)

    assert ours.graphs == theirs.graphs


@in_both_precisions
def test_nodes_run_in_pytorchs_order(name: str, dtype: str) -> None:
    ours, theirs = both(name, dtype)

    assert ours.orders == theirs.orders
    assert all(ours.orders)
