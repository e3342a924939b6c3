"""Leaves that no variable was assigned to have the name of the argument at their first use."""

from __future__ import annotations

import pytest

from gradscope.analysis.identity.given_names import given_names, name_in
from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.names import find_nodes
from gradscope.trace.schema import NONE, Edge, Frame, Node, Row, Stack, Tensor
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


@pytest.mark.parametrize(
    ("source", "node", "edge", "name"),
    [
        ("hidden = F.relu(F.linear(x, w1, b1))", "TBackward0", 0, "w1"),
        ("hidden = F.relu(F.linear(x, w1, b1))", "AddmmBackward0", 0, "b1"),
        ("return F.linear(x, bias=self.b, weight=self.w)", "AddmmBackward0", 0, "self.b"),
        ("y = F.conv2d(x, kernel, offset)", "ConvolutionBackward0", 1, "kernel"),
        ("y = F.conv2d(x, kernel, offset)", "ConvolutionBackward0", 2, "offset"),
        ("v = F.embedding(ids, table)", "EmbeddingBackward0", 0, "table"),
        ("y = (x @ w).tanh()", "MmBackward0", 1, "w"),
        ("y = a * b", "MulBackward0", 0, "a"),
        ("y = a * b", "MulBackward0", 1, "b"),
    ],
)
def test_the_argument_whose_gradient_the_edge_is(
    source: str, node: str, edge: int, name: str
) -> None:
    assert name_in(source, node, edge) == name


@pytest.mark.parametrize(
    ("source", "node", "edge"),
    [
        ("y = F.linear(x, w1) + F.linear(x, w2)", "TBackward0", 0),  # which one?
        ("y = F.linear(x.t(), w)", "TBackward0", 0),  # x.t() may be meant
        ("y = F.linear(*given)", "AddmmBackward0", 0),
        ("y = F.linear(x, w, 2 * b)", "AddmmBackward0", 0),  # that has a node of its own
        ("y = F.linear(x, ws[0], b)", "TBackward0", 0),  # which one is a matter of time
        ("y = v / F.normalize(w)", "DivBackward0", 0),  # it divides, too
        ("y = a * b * c", "MulBackward0", 0),
        ("y = helper(a)", "MulBackward0", 0),
        ("y = a * b", "CosBackward0", 0),
        ("y = (a *", "MulBackward0", 0),  # a line that goes on
        ("", "MulBackward0", 0),
        ("x" * 600, "MulBackward0", 0),
    ],
)
def test_an_uncertain_name_is_none(source: str, node: str, edge: int) -> None:
    assert name_in(source, node, edge) == ""


def used(*lines: str, names: tuple[str, ...] = ("",)) -> Trace:
    """A leaf for each line, each the second factor of a product at that line."""
    rows: list[Row] = []
    for at, line in enumerate(lines):
        rows += [Frame(at, "net.py", at + 1, "", line), Stack(at, at)]
        rows.append(Tensor(at, leaf=True, requires_grad=True, name=names[at % len(names)]))
        rows += [Node(2 * at, "AccumulateGrad", NONE, inputs=(at,))]
        rows += [Node(2 * at + 1, "MulBackward0", stack=at), Edge(2 * at + 1, 1, 2 * at)]
    return trace_of(*rows)


def test_a_leaf_has_the_name_of_its_first_use_and_is_found_by_it() -> None:
    trace = used("y = x * scale")

    found = leaf(trace, 0)
    assert found is not None
    assert (found.title, found.guessed) == ("scale", True)
    assert find_nodes(trace, "scale") == (0,)


def test_a_name_of_two_tensors_is_that_of_none() -> None:
    assert given_names(used("y = x * w", "z = x * w")) == {}
    assert given_names(used("y = x * w", "z = x * v")) == {0: "w", 1: "v"}
    assert given_names(used("y = x * w", "z = x * v", names=("", "w"))) == {}


def test_a_recorded_name_stays() -> None:
    found = leaf(used("y = x * w", names=("layer.weight",)), 0)

    assert found is not None
    assert (found.title, found.guessed) == ("layer.weight", False)
