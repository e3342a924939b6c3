"""Operators of nodes, by PyTorch's registry."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch

NAMES = {
    "AddBackward0": "add",
    "ToCopyBackward0": "_to_copy",
    "SoftmaxBackward0": "_softmax",
    "NllLossBackward0": "nll_loss_forward",
    "MaxPool2DWithIndicesBackward0": "max_pool2d_with_indices",
    "Log1PBackward0": "log1p",
    "ConvolutionBackward0": "convolution",
    "CopySlices": None,
    "AccumulateGrad": None,
    "MineBackward0": None,
    "ExpBackward": None,  # of a custom Function: PyTorch's own have a number
}


@pytest.mark.parametrize(("node", "operator"), NAMES.items())
def test_the_operator_of_a_node_is_found_by_its_name(node: str, operator: str | None) -> None:
    from gradscope.watch.called.results import operator_of

    assert operator_of(node) == operator
