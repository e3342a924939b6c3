"""What several operations do in one pass, against the operations themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.runtime.fast.layers import joined

SHAPES = [(1, 1), (3, 7), (64, 33), (17, 256)]


def numbers(shape: Any, dtype: Any, seed: int = 0) -> Any:
    made = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    flat = made.reshape(-1)
    if flat.size > 20:
        flat[3], flat[8], flat[11], flat[13] = np.nan, np.inf, -np.inf, -0.0
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_layers_and_sums_leave_the_bits_of_the_operations(shape: Any, dtype: Any) -> None:
    rows, width = shape
    x, bias = numbers(shape, dtype), numbers((width,), dtype, 1)
    left, right = numbers((rows, 5), dtype, 2), numbers((width, 5), dtype, 3).T
    with np.errstate(all="ignore"):
        layer = torch.addmm(*(torch.from_numpy(each) for each in (bias, left, right)))
        relu = torch.relu(layer).numpy()
        found = [joined.linear_relu(bias, left, right), joined.sum_of_rows(x)]
        found.append(joined.threshold_backward(x, np.maximum(x, 0)))
        wanted = [relu, x.sum(0), np.where(np.maximum(x, 0) <= 0, dtype(0), x)]
    for mine, known in zip(found, wanted, strict=True):
        assert mine.dtype == dtype
        np.testing.assert_array_equal(mine, known)
        np.testing.assert_array_equal(np.signbit(mine), np.signbit(known))


@pytest.mark.parametrize("shape", [(1, 2), (3, 7), (64, 10), (17, 256)])
def test_a_loss_is_that_of_the_operations_within_its_tolerance(shape: Any) -> None:
    rng = np.random.default_rng(0)
    for scale in (1, 90):
        scores = (rng.normal(size=shape) * scale).astype(np.float32)
        target = rng.integers(0, shape[1], shape[0])
        target[1:2] = -100
        given = torch.from_numpy(scores.astype(np.float64)).requires_grad_()
        loss = torch.nn.functional.cross_entropy(given, torch.from_numpy(target))
        loss.backward()

        made, kept, slope = joined.cross_entropy(scores, target, -100)  # type: ignore[misc]

        assert kept == (target >= 0).sum()
        np.testing.assert_allclose(made, loss.detach().numpy(), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(slope, given.grad.numpy(), rtol=0, atol=1e-6)


def test_what_is_not_finite_or_not_there_in_a_loss() -> None:
    scores = np.zeros((4, 3), np.float32)
    scores[1, 2], scores[2, 0] = np.nan, np.inf

    loss, _, slope = joined.cross_entropy(scores, np.zeros(4, np.int64), -100)  # type: ignore[misc]
    assert np.isnan(loss)
    np.testing.assert_array_equal(np.isnan(slope).all(1), [False, True, True, False])

    none = joined.cross_entropy(scores, np.full(4, -100), -100)
    assert none is not None
    assert np.isnan(none[0])
    assert not none[2].any()
    for wrong in (3, -1):
        assert joined.cross_entropy(scores, np.full(4, wrong), -100) is None
