"""Nodes run in PyTorch's order, on graphs PyTorch would have built, with PyTorch's results."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from tests.runtime.both import runtime
from tests.runtime.graphs import SHAPES
from tests.runtime.oracle import graph_of, walk

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True"),
]


def observe(torch: Any, shape: str, seed: int, how: str) -> dict[str, Any]:
    """The graph of a program, the order in which its nodes ran, and the gradients of its leaves."""
    random = Random(seed)
    roots = SHAPES[shape](torch, random)
    nodes = [node for node, _ in walk(roots)]
    ran: list[Any] = []
    for place, node in enumerate(nodes):
        label = f"{place} {type(node).__name__}"
        node.register_hook(lambda *grads, label=label: ran.append(label))
    variables = [node.variable for node in nodes if hasattr(node, "variable")]
    graph, error, found = graph_of(roots), "", []
    try:
        found = _run(torch, roots, variables, random, how)
    except RuntimeError as raised:  # something saved was written to
        error = str(raised).splitlines()[0]
    return {
        "graph": graph,
        "order": ran,
        "error": error,
        "gradients": [None if g is None else g.tolist() for g in found],
        # What `grad` returns may lie in memory as it likes.
        "strides": [None if g is None else g.stride() for g in found] if how != HOW[3] else [],
    }


def _run(torch: Any, roots: list[Any], variables: list[Any], random: Random, how: str) -> list[Any]:
    if how == "some inputs":
        wanted = random.sample(variables, random.randint(1, len(variables)))
        return list(torch.autograd.grad(roots, wanted))
    if how == "backward for some inputs":
        torch.autograd.backward(roots, inputs=random.sample(variables, 1))
    elif how == "twice":
        torch.autograd.backward(roots, retain_graph=True)
        torch.autograd.backward(roots)
    elif how == "second derivatives":
        first = torch.autograd.grad(roots, variables, create_graph=True)
        total = sum(((g * g).sum() for g in first if g.requires_grad), roots[0] * 0)
        torch.autograd.backward(total)
    else:
        torch.autograd.backward(roots, create_graph=how == "create_graph")
    return [v.grad for v in variables]


HOW = (
    "backward",
    "create_graph",
    "twice",
    "some inputs",
    "backward for some inputs",
    "second derivatives",
)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", SHAPES)
def test_order_graph_and_gradients_are_pytorchs(shape: str, how: str) -> None:
    import torch

    for seed in range(8):
        ours, theirs = (observe(module, shape, seed, how) for module in (runtime(), torch))

        for what in ("graph", "order", "error", "strides"):
            assert ours[what] == theirs[what], (seed, what)
        for mine, other in zip(ours["gradients"], theirs["gradients"], strict=True):
            assert (mine is None) == (other is None)
            if mine is not None:
                np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-12)


def observe_again(torch: Any, shape: str, seed: int) -> list[str]:
    """The order of nodes in the graph that create_graph made."""
    random = Random(seed)
    roots = SHAPES[shape](torch, random)
    variables = [node.variable for node, _ in walk(roots) if hasattr(node, "variable")]
    first = torch.autograd.grad(roots, variables, create_graph=True)
    second = [(g * g).sum() for g in first if g.requires_grad]
    if not second:
        return []
    ran: list[str] = []
    nodes = [node for node, _ in walk(second)]
    for place, node in enumerate(nodes):
        label = f"{place} {type(node).__name__}"
        node.register_hook(lambda *grads, label=label: ran.append(label))
    torch.autograd.backward(second)
    return ran


@pytest.mark.parametrize("shape", [s for s in SHAPES if s != "views and writes"])
def test_the_order_in_a_double_backward_is_pytorchs(shape: str) -> None:
    import torch

    for seed in range(4):
        assert observe_again(runtime(), shape, seed) == observe_again(torch, shape, seed), seed


def test_leaves_with_the_same_priority_come_in_pytorchs_order() -> None:
    import torch

    for count in range(1, 40):
        orders = []
        for module in (runtime(), torch):
            heard: list[int] = []
            values = [module.ones(1, requires_grad=True) for _ in range(count)]
            for i, value in enumerate(values):
                value.register_hook(lambda grad, i=i, heard=heard: heard.append(i))
            module.cat(values).sum().backward()
            orders.append(heard)
        assert orders[0] == orders[1], count
