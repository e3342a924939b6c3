"""What a node shows of itself."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest

from tests.runtime.both import leaf, names, raises


def test_every_step_of_a_program_is_a_node(torch: Any) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    y = x + 2
    z = y * y * 3
    out = z.mean()

    walked = []
    node = out.grad_fn
    while node is not None:
        walked.append(type(node).__name__)
        node = node.next_functions[0][0] if node.next_functions else None
    assert walked == [
        "MeanBackward0",
        "MulBackward0",
        "MulBackward0",
        "AddBackward0",
        "AccumulateGrad",
    ]
    assert names(y.grad_fn) == [("AccumulateGrad", 0), (None, 0)]
    out.backward()
    assert x.grad.tolist() == [[4.5, 4.5], [4.5, 4.5]]


def test_a_leafs_node_knows_the_leaf_and_is_the_same_each_time(torch: Any) -> None:
    x = leaf(torch, 1.0)
    first, second = (x * 2).grad_fn, (x * 3).grad_fn
    held = (x * 2).grad_fn.next_functions[0][0]

    assert held.variable is x
    assert first.next_functions[0][0] is second.next_functions[0][0]


def test_the_class_of_a_node_says_what_its_nodes_keep(torch: Any) -> None:
    node = (leaf(torch, 1.0) ** 2).sum(0).grad_fn
    power = node.next_functions[0][0]

    assert all(hasattr(type(power), name) for name in ("_saved_self", "_raw_saved_self"))
    assert hasattr(type(node), "_saved_dim")
    assert not hasattr(node, "_raw_saved_dim")
    assert not hasattr(node, "_saved_self")
    assert [n for n in dir(node) if n.startswith(("_saved_", "_raw_saved_"))] == [
        "_saved_dim",
        "_saved_keepdim",
        "_saved_self_sym_sizes",
    ]


def test_numbers_rise(torch: Any) -> None:
    x = leaf(torch, 1.0)
    first, second = x * 2, x * 3

    assert second.grad_fn._sequence_nr() == first.grad_fn._sequence_nr() + 1


def test_edges_without_a_gradient_keep_their_place(torch: Any) -> None:
    x = leaf(torch, 1.0)
    w = torch.ones(1, dtype=torch.float64)

    assert names((w * x).grad_fn) == [(None, 0), ("AccumulateGrad", 0)]


def test_edges_name_the_output_they_come_from(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    first, second = x.unbind()

    assert names((first * second).grad_fn) == [("UnbindBackward0", 0), ("UnbindBackward0", 1)]


def test_a_node_cannot_be_copied(torch: Any) -> None:
    y = leaf(torch, 1.0) * 2

    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises((TypeError, RuntimeError)):
            attempt(y.grad_fn)


def test_graphs_die_with_their_last_holder(torch: Any) -> None:
    gc.disable()
    try:
        x = leaf(torch, 1.0)
        y = (x * 2).exp()
        held = weakref.ref(y)
        z = y.sum()
        del y
        assert held() is None
        z.backward()
        leaf_held = weakref.ref(x)
        del x, z
        assert leaf_held() is None
    finally:
        gc.enable()


def test_what_a_node_saved_is_shown(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x**2

    assert y.grad_fn._saved_self is x
    assert y.grad_fn._saved_exponent == 2
    with pytest.raises(AttributeError):
        y.grad_fn._saved_nothing  # noqa: B018


def test_a_node_is_a_node(torch: Any) -> None:
    y = leaf(torch, 3.0) * 2

    assert isinstance(y.grad_fn, torch.autograd.graph.Node)
    assert isinstance(y, torch.autograd.Variable)


def test_hyperbolic_inverses_that_write_over_their_tensor_have_no_gradient(torch: Any) -> None:
    for name in ("acosh", "asinh", "atanh"):
        y = getattr(leaf(torch, 0.5).clone(), f"{name}_")()

        assert type(y.grad_fn).__name__ == f"{name.capitalize()}Backward1"
        assert raises(NotImplementedError, y.backward) == (
            f"the derivative for 'inplace version of {name}' is not implemented."
        )
