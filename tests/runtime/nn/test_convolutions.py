"""Modules with windows against PyTorch's: text, first values, results, what they refuse."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.runtime.engines import ENGINES

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

LINE, IMAGE, VOLUME = (2, 4, 7), (2, 4, 6, 7), (1, 4, 3, 4, 5)
MODULES = [
    ("nn.Conv1d(4, 6, 3)", LINE),
    ("nn.Conv1d(4, 6, 3, padding='same', dilation=2, bias=False)", LINE),
    ("nn.Conv1d(4, 6, 4, padding='same', padding_mode='replicate')", LINE),
    ("nn.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), groups=2)", IMAGE),
    ("nn.Conv2d(4, 2, 3, padding=2, padding_mode='reflect')", IMAGE),
    ("nn.Conv2d(4, 2, 3, padding=(1, 2), padding_mode='circular')", IMAGE),
    ("nn.Conv2d(4, 2, 3, padding='valid')", IMAGE[1:]),
    ("nn.Conv3d(4, 2, 2, padding=1, dilation=(1, 2, 1))", VOLUME),
    ("nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2)", LINE),
    ("nn.ConvTranspose2d(4, 2, (3, 2), stride=(2, 1), dilation=2)", IMAGE),
    ("nn.ConvTranspose3d(4, 2, 2, bias=False)", VOLUME),
    ("nn.LazyConv1d(6, 3)", LINE),
    ("nn.LazyConv2d(6, 3, 1, 0, 1, 2, False)", IMAGE),
    ("nn.LazyConv3d(2, 2, bias=False)", VOLUME),
    ("nn.LazyConvTranspose1d(6, 3, output_padding=1, stride=2)", LINE),
    ("nn.LazyConvTranspose2d(6, 3, groups=2)", IMAGE[1:]),
    ("nn.LazyConvTranspose3d(2, 2)", VOLUME),
    ("nn.Unfold(3, padding=1, stride=(2, 1))", IMAGE),
    ("nn.Fold((3, 3), 2)", (2, 8, 4)),
]


@pytest.mark.parametrize(("code", "shape"), MODULES)
def test_they_are_and_compute_what_pytorchs_do(code: str, shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(0).normal(size=shape)
    seen: list[list[Any]] = []
    for engine in ENGINES:
        engine.manual_seed(3)
        module = eval(code, {"nn": engine.nn})
        before = repr(module)
        x = engine.from_numpy(numbers.astype(np.float32)).requires_grad_()
        module(x.detach())
        kept = {name: value.numpy() for name, value in module.state_dict().items()}
        out = module.double()(x.double())
        (out * out).sum().backward()
        grads = [p.grad.numpy() for p in module.parameters()]
        words = [before, repr(module), list(kept), type(module).__name__]
        seen.append([words, *kept.values(), out.detach().numpy(), x.grad.numpy(), *grads])

    found, expected = seen
    assert found[0] == expected[0]
    for one, other in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "code",
    [
        "nn.Conv2d(4, 6, 3, groups=0)",
        "nn.Conv2d(4, 6, 3, groups=3)",
        "nn.Conv2d(3, 4, 3, groups=3)",
        "nn.Conv2d(4, 6, 3, padding='half')",
        "nn.Conv2d(4, 6, 3, padding='same', stride=2)",
        "nn.Conv2d(4, 6, 3, padding_mode='none')",
        "nn.ConvTranspose2d(4, 6, 3, padding_mode='reflect')",
        "nn.ConvTranspose2d(4, 2, 3, stride=2)(x, output_size=(15, 15)).shape",
        "nn.ConvTranspose2d(4, 2, 3, stride=2)(x, output_size=(2, 2, 14, 16)).shape",
        "nn.ConvTranspose2d(4, 2, 3, stride=2)(x, output_size=(20, 15))",
        "nn.ConvTranspose2d(4, 2, 3, stride=2)(x, output_size=(15,))",
        "nn.LazyConv2d(6, 3)(x[0, 0])",
        "nn.LazyConv2d(6, 3, groups=3)(x)",
        "nn.Conv2d(4, 6, 3)(x[:, :2])",
    ],
)
def test_they_refuse_in_pytorchs_words(code: str) -> None:
    told = []
    for engine in ENGINES:
        try:
            told.append(str(eval(code, {"nn": engine.nn, "x": engine.ones(2, 4, 6, 7)})))
        except (RuntimeError, ValueError) as error:
            told.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")

    assert ordered(told[0]) == ordered(told[1])


def ordered(text: str) -> str:
    """The text with sets of words in order: Python prints them in another one each time."""
    return re.sub(r"\{[^}]*\}", lambda found: str(sorted(found[0][1:-1].split(", "))), text)


def test_images_with_channels_last_give_images_with_channels_last() -> None:
    strides = []
    for engine in ENGINES:
        x = engine.ones(2, 4, 6, 7).to(memory_format=engine.channels_last)
        strides.append(engine.nn.Conv2d(4, 3, 3)(x).stride())

    assert strides[0] == strides[1]
