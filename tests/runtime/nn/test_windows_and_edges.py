"""Modules of pooling, padding, sampling and shuffling against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradscope.runtime as ours
from tests.runtime.engines import torch

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

LINE, IMAGE, VOLUME = (2, 4, 8), (2, 4, 6, 8), (2, 4, 4, 6, 4)

LAYERS = {
    LINE: """nn.MaxPool1d(2)
nn.MaxPool1d(3, 2, 1, return_indices=True)
nn.AvgPool1d(2, ceil_mode=True)
nn.LPPool1d(2, 3)
nn.AdaptiveMaxPool1d(3)
nn.AdaptiveAvgPool1d(5)
nn.ConstantPad1d(1, 2.5)
nn.ZeroPad1d((1, 0))
nn.ReflectionPad1d(2)
nn.ReplicationPad1d((3, 0))
nn.CircularPad1d(2)
nn.Upsample(5)
nn.Upsample(scale_factor=2, mode='linear')""",
    IMAGE: """nn.MaxPool2d(2)
nn.MaxPool2d((3, 2), stride=(2, 1), padding=(1, 0), dilation=2, ceil_mode=True)
nn.AvgPool2d(3, 2, 1, count_include_pad=False)
nn.AvgPool2d(2, divisor_override=3)
nn.LPPool2d(1.5, (3, 2), stride=1)
nn.FractionalMaxPool2d(2, output_size=3)
nn.FractionalMaxPool2d((2, 3), output_ratio=0.5, return_indices=True)
nn.AdaptiveMaxPool2d((3, None))
nn.AdaptiveAvgPool2d(1)
nn.AdaptiveAvgPool2d((None, 3))
nn.ConstantPad2d((1, 2, 0, 1), 2.5)
nn.ZeroPad2d(1)
nn.ReflectionPad2d((1, 2, 0, 1))
nn.ReplicationPad2d(2)
nn.CircularPad2d((1, 2, 0, 1))
nn.Upsample((9, 7), mode='bicubic')
nn.Upsample(scale_factor=(1.5, 2), mode='bilinear', recompute_scale_factor=True)
nn.UpsamplingNearest2d(scale_factor=2)
nn.UpsamplingBilinear2d((9, 7))
nn.PixelShuffle(2)
nn.PixelUnshuffle(2)
nn.ChannelShuffle(2)""",
    VOLUME: """nn.MaxPool3d(2, return_indices=True)
nn.AvgPool3d((2, 3, 2))
nn.LPPool3d(2, 2)
nn.FractionalMaxPool3d(2, output_size=2)
nn.AdaptiveMaxPool3d(2)
nn.AdaptiveAvgPool3d((1, 2, 3))
nn.ConstantPad3d(1, 2.5)
nn.ZeroPad3d((1, 2, 0, 1, 1, 0))
nn.ReflectionPad3d(1)
nn.ReplicationPad3d(1)
nn.CircularPad3d(1)
nn.Upsample(scale_factor=2, mode='trilinear', align_corners=True)""",
}
CASES = [(code, shape) for shape, codes in LAYERS.items() for code in codes.split("\n")]


@pytest.mark.parametrize(("code", "shape"), CASES)
def test_they_are_and_compute_what_pytorchs_are_and_do(code: str, shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(0).normal(size=shape)
    results = []
    for engine in (ours, torch):
        engine.manual_seed(1)
        module = eval(code, {"nn": engine.nn})
        x = engine.from_numpy(numbers.copy()).requires_grad_(True)
        made = module(x)
        out, *rest = made if isinstance(made, tuple) else (made,)
        (out * out).sum().backward()
        results.append((repr(module), [t.detach().numpy() for t in (out, *rest, x.grad)]))

    (found, arrays), (expected, known) = results
    assert found == expected
    for array, other in zip(arrays, known, strict=True):
        np.testing.assert_allclose(array, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling_puts_back_what_pooling_took(dims: int) -> None:
    shape = {1: LINE, 2: IMAGE, 3: VOLUME}[dims]
    numbers = np.random.default_rng(0).normal(size=shape)
    results: list[Any] = []
    for engine in (ours, torch):
        pool = getattr(engine.nn, f"MaxPool{dims}d")(2, return_indices=True)
        unpool = getattr(engine.nn, f"MaxUnpool{dims}d")(2)
        values, where = pool(engine.from_numpy(numbers.copy()))
        made = unpool(values, where, output_size=shape)
        results.append((repr(unpool), made.numpy()))

    assert results[0][0] == results[1][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])


REFUSED = """nn.FractionalMaxPool2d(2)
nn.FractionalMaxPool2d(2, output_size=3, output_ratio=0.5)
nn.FractionalMaxPool2d(2, output_ratio=1.5)
nn.FractionalMaxPool3d(0, output_size=3)
nn.CircularPad1d(1)(torch.ones(3))
nn.CircularPad2d(1)(torch.ones(3, 3))
nn.CircularPad3d(1)(torch.ones(3, 3))
nn.MaxPool2d(2)(torch.ones(3))"""


@pytest.mark.parametrize("code", REFUSED.split("\n"))
def test_they_refuse_in_pytorchs_words(code: str) -> None:
    said = []
    for engine in (ours, torch):
        with pytest.raises(Exception) as refused:
            eval(code, {"nn": engine.nn, "torch": engine})
        said.append((refused.type, str(refused.value).split("\n")[0]))

    assert said[0] == said[1]
