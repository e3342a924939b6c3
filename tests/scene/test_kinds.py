from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import gradscope.runtime
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.scene.kinds import KIND_OF, MEMBERS, NodeKind, kind_of, operation_of

NODE_CLASS = re.compile(r"^class (\w+)\(Node\):", re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AccumulateGrad", NodeKind.LEAF),
        ("MulBackward0", NodeKind.POINTWISE),
        ("AddmmBackward0", NodeKind.MATMUL),
        ("ConvolutionBackward0", NodeKind.MATMUL),
        ("ConvolutionBackwardBackward0", NodeKind.MATMUL),
        ("TanhBackwardBackward0", NodeKind.POINTWISE),
        ("MeanBackward1", NodeKind.REDUCTION),
        ("LinalgSvdBackward0", NodeKind.LINALG),
        ("MaxPool2DWithIndicesBackward0", NodeKind.POOLING),
        ("DiagonalBackward0_copy", NodeKind.VIEW),
        ("ReshapeAliasBackward0", NodeKind.VIEW),
        ("_ReshapeAliasBackward0", NodeKind.VIEW),
        ("CopySlices", NodeKind.VIEW),
        ("EmbeddingBackward0", NodeKind.INDEX),
        ("LogSoftmaxBackward0", NodeKind.NORMALIZATION),
        ("NllLossBackward0", NodeKind.LOSS),
        ("MyFunctionBackward", NodeKind.CUSTOM),
        ("NobodyKnowsBackward0", NodeKind.OTHER),
        ("GraphRoot", NodeKind.OTHER),
        ("", NodeKind.OTHER),
        ('"><script>', NodeKind.OTHER),
    ],
)
def test_a_node_is_of_the_family_its_name_says(name: str, kind: NodeKind) -> None:
    assert kind_of(name) is kind


def declared_by_the_runtime() -> set[str]:
    """Every name a node of the engine can have: rows of operations, and classes of their own."""
    folder = Path(gradscope.runtime.__path__[0])
    classes = {
        name for file in folder.rglob("*.py") for name in NODE_CLASS.findall(file.read_text())
    }
    return {operation.node_name for operation in REGISTRY.values()} - {""} | classes - {"OpNode"}


def test_every_node_that_the_runtime_declares_is_sorted_into_a_family() -> None:
    names = declared_by_the_runtime()

    assert len(names) > 400
    assert {"CopySlices", "AccumulateGrad", "WarnNotImplemented", "TanhBackward0"} <= names
    assert sorted(name for name in names if operation_of(name) not in KIND_OF) == []


def test_no_operation_is_in_two_families() -> None:
    listed = Counter(name.lower() for names in MEMBERS.values() for name in names.split())

    assert [name for name, times in listed.items() if times > 1] == []
