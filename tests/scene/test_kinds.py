from __future__ import annotations

import pytest

from gradscope.scene.kinds import Kind, kind_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AccumulateGrad", Kind.LEAF),
        ("MulBackward0", Kind.POINTWISE),
        ("AddmmBackward0", Kind.MATMUL),
        ("ConvolutionBackward0", Kind.MATMUL),
        ("ConvolutionBackwardBackward0", Kind.MATMUL),
        ("MeanBackward1", Kind.REDUCTION),
        ("ReshapeAliasBackward0", Kind.VIEW),
        ("_ReshapeAliasBackward0", Kind.VIEW),
        ("CopySlices", Kind.VIEW),
        ("EmbeddingBackward0", Kind.INDEX),
        ("LogSoftmaxBackward0", Kind.NORMALIZATION),
        ("NllLossBackward0", Kind.LOSS),
        ("MyFunctionBackward", Kind.CUSTOM),
        ("GraphRoot", Kind.OTHER),
        ("", Kind.OTHER),
        ('"><script>', Kind.OTHER),
    ],
)
def test_a_node_is_of_the_family_its_name_says(name: str, kind: Kind) -> None:
    assert kind_of(name) is kind
