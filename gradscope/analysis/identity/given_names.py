"""Names of leaves without one, from the line that first uses them: `F.linear(x, w1, b1)`."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from gradscope.analysis.source.functions import last_name, parsed
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import Edge, Node, Tensor
from gradscope.trace.trace import Trace

LONGEST_LINE, LONGEST_NAME = 500, 40


class NamedArgument(NamedTuple):
    """An argument of a function, by place or by name."""

    functions: tuple[str, ...]
    place: int
    name: str


CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
ARGUMENTS: Mapping[tuple[str, int], NamedArgument] = {
    ("TBackward0", 0): NamedArgument(("linear",), 1, "weight"),
    ("AddmmBackward0", 0): NamedArgument(("linear",), 2, "bias"),
    ("ConvolutionBackward0", 1): NamedArgument(CONVOLUTIONS, 1, "weight"),
    ("ConvolutionBackward0", 2): NamedArgument(CONVOLUTIONS, 2, "bias"),
    ("EmbeddingBackward0", 0): NamedArgument(("embedding",), 1, "weight"),
    ("NativeLayerNormBackward0", 1): NamedArgument(("layer_norm",), 2, "weight"),
    ("NativeLayerNormBackward0", 2): NamedArgument(("layer_norm",), 3, "bias"),
}
"""By the name of a node and the number of its edge: the argument whose gradient that is."""
OPERATORS: Mapping[str, type[ast.operator]] = {
    "AddBackward0": ast.Add,
    "SubBackward0": ast.Sub,
    "MulBackward0": ast.Mult,
    "DivBackward0": ast.Div,
    "MmBackward0": ast.MatMult,
    "MvBackward0": ast.MatMult,
    "DotBackward0": ast.MatMult,
}


PLAIN = frozenset(
    (
        *("sum", "mean", "relu", "tanh", "sigmoid", "exp", "sin", "cos", "log", "sqrt", "square"),
        *("softmax", "log_softmax", "cross_entropy", "mse_loss", "nll_loss", "view", "reshape"),
        *("flatten", "append", "print"),
    )
)
"""Functions that make no node of which a name is known here."""


def given_names(trace: Trace) -> Mapping[int, str]:
    """The name of each leaf that has none, at its first use, if no other tensor has that name."""
    found = dict(_at_first_use(trace))
    names = trace.table(Tensor)["name"]
    taken = Counter(found.values()) + Counter(trace.texts(distinct(names)))
    return {leaf: name for leaf, name in found.items() if taken[name] == 1}


def _at_first_use(trace: Trace) -> Iterator[tuple[int, str]]:
    nodes, edges, tensors = trace.table(Node), trace.table(Edge), trace.table(Tensor)
    fills = [n for n in distinct(nodes["name"]).tolist() if trace.text(n) == "AccumulateGrad"]
    rows = nodes.take(np.flatnonzero(np.isin(nodes["name"], fills)))
    leaf_of = {
        row.id: row.inputs[0]
        for row in rows
        if row.inputs and tensors.has(row.inputs[0]) and not tensors.row(row.inputs[0]).name
    }
    to_leaf = np.flatnonzero(np.isin(edges["next"], list(leaf_of)))
    order = to_leaf[np.argsort(edges["node"][to_leaf], kind="stable")]
    done = set()
    for edge in edges.take(order):
        leaf = leaf_of[edge.next]
        if leaf not in done and nodes.has(edge.node):
            done.add(leaf)
            node = nodes.row(edge.node)
            name = name_in(trace.source(node.stack), node.name, edge.index)
            if name:
                yield leaf, name


def name_in(source: str, node: str, edge: int) -> str:
    """What a source line calls the tensor to which this edge of a node leads; "" if uncertain."""
    tree = parsed(source.strip()) if len(source) <= LONGEST_LINE else None
    if tree is None:
        return ""
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    wanted = ARGUMENTS.get((node, edge))
    found = [each for each in calls if wanted and last_name(each.func) in wanted.functions]
    others = [each for each in calls if each not in found]
    if not all(last_name(each.func) in PLAIN for each in others):
        return ""  # it may have made the node
    if wanted:
        return _named(_argument(found[0], wanted)) if len(found) == 1 else ""
    operator = OPERATORS.get(node)
    sums = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.BinOp) and operator and isinstance(each.op, operator)
    ]
    if len(sums) != 1 or edge > 1:
        return ""
    return _named(sums[0].right if edge else sums[0].left)


def _argument(call: ast.Call, wanted: NamedArgument) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == wanted.name:
            return keyword.value
    given = call.args[: wanted.place + 1]
    if len(given) <= wanted.place or any(isinstance(each, ast.Starred) for each in given):
        return None
    return given[wanted.place]


def _named(expression: ast.expr | None) -> str:
    """A plain name, with attributes; anything else may be another tensor."""
    inner = expression
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    if expression is None or not isinstance(inner, ast.Name):
        return ""
    name = ast.unparse(expression)
    return name if len(name) <= LONGEST_NAME else ""
