"""Losses of the top module: without warnings, and with a number as reduction."""

from __future__ import annotations

from gradscope.runtime.core.ops.losses import likelihood, margins
from gradscope.runtime.core.rows.offered import function
from gradscope.runtime.core.rows.reduction import NONE, reduced_tensor

REDUCTIONS = ("none", "mean", "sum")


@function
def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=NONE):
    return likelihood.binary_cross_entropy_with_logits(
        input, target, weight, reduction=REDUCTIONS[reduction], pos_weight=pos_weight
    )


@function
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=NONE):
    how = REDUCTIONS[reduction]
    return margins.cosine_embedding_loss(input1, input2, target, margin, reduction=how)


@function
def hinge_embedding_loss(input, target, margin=1.0, reduction=NONE):
    return margins.hinge_embedding_loss(input, target, margin, reduction=REDUCTIONS[reduction])


@function
def kl_div(input, target, reduction=NONE, *, log_target=False):
    made = likelihood.kl_div(input, target, reduction="none", log_target=log_target)
    return reduced_tensor(made, reduction)


@function
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=NONE):
    how = REDUCTIONS[reduction]
    return margins.margin_ranking_loss(input1, input2, target, margin, reduction=how)


@function
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    how = REDUCTIONS[reduction]
    return margins.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=how)


@function
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=NONE
):
    return margins.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=REDUCTIONS[reduction]
    )
