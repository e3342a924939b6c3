"""Every module: how it is written, what it computes, the graph, gradients, and what it keeps."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as ours
from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.engines import graph

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own deprecations

LINES = [
    line
    for line in Path(__file__).with_name("modules.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@as_pytorch_answered({"modules": LINES}, tolerance=10)  # what they start with is single precision
def test_a_module_does_what_pytorchs_does(torch: Any, line: str) -> Any:
    torch.manual_seed(1)
    code, _, inputs = line.partition(" | ")
    module = eval(f"nn.{code}", {"nn": torch.nn, "torch": torch})
    text = repr(module) if isinstance(module, torch.nn.Module) else code
    if isinstance(module, torch.nn.Module):
        module.double()
    given = inputs_of(torch, inputs)
    torch.manual_seed(2)
    made = tensors(module(*given))
    floats = [each for each in made if each.is_floating_point() and each.requires_grad]
    found = {"text": text, "result": made, "graph": graph(floats)}
    sum((each * each).sum() for each in floats).backward()
    found["gradient"] = [x.grad for x in given if x.requires_grad and x.is_leaf]
    if isinstance(module, torch.nn.Module):
        found["gradients of parameters"] = {n: p.grad for n, p in module.named_parameters()}
        found["buffers"] = dict(module.named_buffers())
    return found


def tensors(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [one for item in value for one in tensors(item)]
    return [] if value is None else [value]


def inputs_of(torch: Any, text: str) -> list[Any]:
    """What stands behind the bar of a line; modules.txt says how it is read."""
    rng = np.random.default_rng(0)
    return [one_input(torch, word, rng) for word in re.findall(r'"[^"]*"|\S+', text)]


def one_input(torch: Any, word: str, rng: np.random.Generator) -> Any:
    def numbers(*shape: int) -> Any:
        return torch.from_numpy(rng.normal(size=shape)).requires_grad_(True)

    if word[0] == '"':
        return eval(word[1:-1], {"torch": torch, "x": numbers})
    shape, _, limit = word.lstrip("+si").partition("<")
    sizes = tuple(int(size) for size in shape.split("x"))
    if word[0] == "i":
        return torch.from_numpy(rng.integers(0, int(limit), sizes))
    if word[0] == "s":
        return torch.from_numpy(rng.choice([-1.0, 1.0], sizes))
    if word[0] == "+":
        return torch.from_numpy(rng.uniform(0.1, 0.9, sizes)).requires_grad_(True)
    return numbers(*sizes)


PARTS = {"Module", "RNNBase", "RNNCellBase", "Container"}
"""What other modules are made of, and does nothing by itself."""


def test_every_module_has_kept_answers() -> None:
    asked = {line.partition("(")[0] for line in LINES}
    offered = {
        name
        for name, found in vars(ours.nn).items()
        if inspect.isclass(found) and issubclass(found, ours.nn.Module)
    }

    assert sorted(offered - asked - PARTS) == []
