from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import gradscope.runtime
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.scene.kinds import KIND_OF, MEMBERS, Kind, kind_of, operation_of

NODE_CLASS = re.compile(r"^class (\w+)\(Node\):", re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AccumulateGrad", Kind.LEAF),
        ("MulBackward0", Kind.POINTWISE),
        ("AddmmBackward0", Kind.MATMUL),
        ("ConvolutionBackward0", Kind.MATMUL),
        ("ConvolutionBackwardBackward0", Kind.MATMUL),
        ("TanhBackwardBackward0", Kind.POINTWISE),
        ("MeanBackward1", Kind.REDUCTION),
        ("LinalgSvdBackward0", Kind.LINALG),
        ("MaxPool2DWithIndicesBackward0", Kind.POOLING),
        ("DiagonalBackward0_copy", Kind.VIEW),
        ("ReshapeAliasBackward0", Kind.VIEW),
        ("_ReshapeAliasBackward0", Kind.VIEW),
        ("CopySlices", Kind.VIEW),
        ("EmbeddingBackward0", Kind.INDEX),
        ("LogSoftmaxBackward0", Kind.NORMALIZATION),
        ("NllLossBackward0", Kind.LOSS),
        ("MyFunctionBackward", Kind.CUSTOM),
        ("NobodyKnowsBackward0", Kind.OTHER),
        ("GraphRoot", Kind.OTHER),
        ("", Kind.OTHER),
        ('"><script>', Kind.OTHER),
    ],
)
def test_a_node_is_of_the_family_its_name_says(name: str, kind: Kind) -> None:
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
