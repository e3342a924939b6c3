"""The models in samples/models do on gradscope's runtime what they do on PyTorch."""

from __future__ import annotations

import ast
import warnings
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.samples.watching import Watched, watched

HERE = Path(__file__).parents[2] / "samples" / "models"
MODELS = sorted(path.stem for path in HERE.glob("*.py"))
LONGEST = 60
STEPS = "20"
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
    if "sklearn" in script.read_text(encoding="utf-8"):
        pytest.importorskip("sklearn", reason="the extra `samples` is not installed")
    ours, theirs = (watched(script, STEPS, gradscope=g, dtype=dtype) for g in (True, False))
    return ours, theirs


models_in_both_precisions = [
    pytest.mark.torch,
    pytest.mark.parametrize("dtype", ["float32", "float64"]),
    pytest.mark.parametrize("name", MODELS),
]


def in_both_precisions(test: object) -> object:
    for mark in models_in_both_precisions:
        test = mark(test)
    return test


@in_both_precisions
def test_losses_are_pytorchs(name: str, dtype: str) -> None:
    ours, theirs = both(name, dtype)

    assert len(ours.losses) >= int(STEPS)
    apart = differences(ours, theirs)
    assert (apart <= RELATIVE[dtype] + chaos(name, dtype)).all(), apart


def differences(first: Watched, second: Watched) -> np.ndarray[Any, Any]:
    """How far the losses are apart, relative to them."""
    one, other = np.array(first.losses), np.array(second.losses)
    return np.asarray(abs(one - other) / abs(other))


def chaos(name: str, dtype: str) -> np.ndarray[Any, Any] | float:
    """How far PyTorch, rounding elsewhere, comes from itself.

    A network with batch normalization makes much of the last bit: with oneDNN off, which is no less
    right, PyTorch's own losses are 1e-4 apart after a dozen steps in single precision.
    """
    if (name, dtype) != ("resnet", "float32"):
        return 0.0
    from torch.backends import mkldnn

    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")  # what mkldnn says of other hardware
        stack.enter_context(mkldnn.flags(enabled=False))
        again = watched(HERE / f"{name}.py", STEPS, gradscope=False, dtype=dtype)
    return 10 * np.maximum.accumulate(differences(again, both(name, dtype)[1]))


@in_both_precisions
def test_graphs_are_pytorchs(name: str, dtype: str) -> None:
    ours, theirs = both(name, dtype)

    assert ours.graphs == theirs.graphs


@in_both_precisions
def test_nodes_run_in_pytorchs_order(name: str, dtype: str) -> None:
    ours, theirs = both(name, dtype)

    assert ours.orders == theirs.orders
    assert all(ours.orders)
