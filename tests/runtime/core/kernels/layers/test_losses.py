"""The negative log likelihood and its gradient, against PyTorch."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels.layers.losses import nll_loss, nll_loss_backward

CASES = list(product(["none", "mean", "sum"], [False, True], [(6, 4), (2, 4, 3, 5), (4,)]))


@pytest.mark.torch
@pytest.mark.parametrize(("reduction", "weighted", "shape"), CASES)
def test_the_loss_and_its_gradient_are_pytorchs(
    reduction: str, weighted: bool, shape: tuple[int, ...]
) -> None:
    import torch

    rng = np.random.default_rng(0)
    scores = rng.normal(size=shape)
    target = rng.integers(0, 4, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if target.ndim:
        target.flat[0] = 2
        target[target == 2] = -7
    weight = rng.uniform(0.5, 2, 4) if weighted else None
    theirs = torch.tensor(scores, requires_grad=True)
    loss = torch.nn.functional.nll_loss(
        theirs,
        torch.tensor(target),
        None if weight is None else torch.tensor(weight),
        reduction=reduction,
        ignore_index=-7,
    )
    grad = rng.normal(size=tuple(loss.shape))
    loss.backward(torch.tensor(grad))
    options: tuple[Any, ...] = (weight, reduction, -7)

    np.testing.assert_allclose(
        nll_loss(scores, target, *options)[0], loss.detach().numpy(), rtol=1e-14
    )
    np.testing.assert_allclose(
        nll_loss_backward(np.asarray(grad), scores, target, *options),
        theirs.grad.numpy(),
        rtol=1e-14,
    )


def test_the_mean_over_ignored_targets_only_is_nan() -> None:
    loss, total = nll_loss(np.zeros((2, 3)), np.array([-100, -100]))
    assert np.isnan(loss)
    assert total == 0


def test_a_class_that_does_not_exist_is_refused() -> None:
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        nll_loss(np.zeros((1, 3)), np.array([3]))
