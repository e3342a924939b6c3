"""Weights of losses."""

from __future__ import annotations

from typing import Any

from tests.runtime.both import raises


def test_weights_without_a_derivative_may_not_want_one(torch: Any) -> None:
    F = torch.nn.functional
    x, weight = torch.rand(2, 3, requires_grad=True), torch.rand(3, requires_grad=True)
    classes, targets = torch.tensor([0, 1]), torch.ones(2, 3)
    places = torch.zeros(2, 1, 1, dtype=torch.int64)
    logits = F.binary_cross_entropy_with_logits
    told = {
        ("nll_loss_forward", "weight"): lambda: F.nll_loss(x, classes, weight=weight),
        ("nll_loss2d_forward", "weight"): lambda: F.nll_loss(x[:, :, None, None], places, weight),
        ("multi_margin_loss", "weight"): lambda: F.multi_margin_loss(x, classes, weight=weight),
        ("binary_cross_entropy", "weight"): lambda: F.binary_cross_entropy(x, targets, weight),
        (logits.__name__, "weight"): lambda: logits(x, targets, weight),
        (logits.__name__, "pos_weight"): lambda: logits(x, targets, pos_weight=weight),
    }
    for (name, argument), call in told.items():
        assert raises(RuntimeError, call) == (
            f"The function '{name}' is not differentiable with respect to argument '{argument}'. "
            "This input cannot have requires_grad True."
        )
    with torch.no_grad():
        assert not F.nll_loss(x, classes, weight=weight).requires_grad
