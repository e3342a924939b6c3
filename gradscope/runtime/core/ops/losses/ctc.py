"""Connectionist temporal classification: ctc_loss."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    FUNCTION_ONLY,
    INTERNAL,
    UNKNOWN,
    family,
    op,
    outputs,
    refuses,
    tensors,
    w,
)
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.kernels.layers import ctc
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import no_derivative
from gradscope.runtime.core.rows.offered import FUNCTIONS, nn_function
from gradscope.runtime.core.rows.reduction import MEAN, NONE, reduction_number
from gradscope.runtime.core.tensors.making.factories import tensor, zeros
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

ASKING = "(while checking arguments for ctc_loss_allocate_outputs)"


def _states(log_probs, targets, input_lengths, target_lengths, blank):
    counts, steps = np.array(target_lengths, np.int64), np.array(input_lengths, np.int64)
    return ctc.states_of(targets.astype(np.int64, copy=False), counts, steps, blank)


def _check(log_probs, targets, input_lengths, target_lengths, blank):
    """Check the arguments, with PyTorch's messages and order."""
    steps, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if len(input_lengths) != batch:
        raise RuntimeError("input_lengths must be of size batch_size")
    if len(target_lengths) != batch:
        raise RuntimeError("target_lengths must be of size batch_size")
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        for length in lengths:
            if length < 0:
                raise RuntimeError(
                    f"Expected {name} to have value at least 0, but got value {length} {ASKING}"
                )
    if targets.ndim == 1:
        if targets.size != sum(target_lengths):
            raise RuntimeError(
                f"Expected tensor to have size {sum(target_lengths)} at dimension 0, but got size "
                f"{targets.size} for argument #2 'targets' {ASKING}"
            )
    else:
        longest = max(target_lengths, default=0)
        if targets.shape[0] != batch:
            raise RuntimeError(
                f"Expected tensor to have size {batch} at dimension 0, but got size "
                f"{targets.shape[0]} for argument #2 'targets' {ASKING}"
            )
        if targets.shape[1] < longest:
            raise RuntimeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but got size "
                f"{targets.shape[1]} for argument #2 'targets' {ASKING}"
            )
    for length in input_lengths:
        if length > steps:
            raise RuntimeError(
                f"Expected input_lengths to have value at most {steps}, but got value {length} "
                f"{ASKING}"
            )


def _loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    if log_probs.dtype in HALVES:
        raise unknown_dtype("ctc_loss_cpu", log_probs)
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    states = _states(log_probs, targets, input_lengths, target_lengths, blank)
    return ctc.forward(log_probs, states)


def _loss_backward(
    grad,
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    neg_log_likelihood,
    log_alpha,
    blank,
    zero_infinity=False,
):
    states = _states(log_probs, targets, input_lengths, target_lengths, blank)
    return ctc.backward(
        grad, log_probs, states, neg_log_likelihood, log_alpha, zero_infinity=zero_infinity
    )


_ctc_loss = op(
    "CtcLossBackward0",
    _loss,
    UNKNOWN,
    FUNCTION_ONLY,
    tensors("targets"),
    refuses("cbiu", "\"ctc_loss_cpu\" not implemented for '{kind}'"),
    outputs("result0", "result1", without=("result1",)),
    log_probs=lambda grads, log_probs, targets, input_lengths, target_lengths, result0, result1, blank, zero_infinity: (  # noqa: E501
        w._ctc_loss_backward(
            grads[0],
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            result0,
            result1,
            blank,
            zero_infinity,
        )
    ),
)
_once = no_derivative("_ctc_loss_backward")
_ctc_loss_backward = op(
    "NotImplemented",
    _loss_backward,
    UNKNOWN,
    INTERNAL,
    tensors("targets"),
    grad=_once,
    log_probs=_once,
    neg_log_likelihood=_once,
    log_alpha=_once,
)
family(globals())


def _lengths(given, name):
    """Lengths as a tuple of numbers."""
    if not isinstance(given, Tensor):
        return tuple(int(length) for length in given)
    if given.is_floating_point() or given.is_complex():
        raise RuntimeError(f"{name} must be integral")
    return tuple(int(length) for length in given.reshape(-1).tolist())


def _reduced_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction=NONE,
    zero_infinity=False,
):
    """The negative log likelihood of targets over all alignments with the steps."""
    batched = log_probs.dim() == 3
    given = log_probs if batched else log_probs.unsqueeze(1)
    steps = _lengths(input_lengths, "input_lengths")
    counts = _lengths(target_lengths, "target_lengths")
    losses = _ctc_loss(given, targets, steps, counts, blank, zero_infinity)[0]
    if zero_infinity:
        where = FUNCTIONS["where"]
        losses = where(losses == float("inf"), zeros((), dtype=losses.dtype), losses)
    if reduction == MEAN:
        each = tensor([max(count, 1) for count in counts], dtype=losses.dtype)
        return (losses / each).mean()
    if reduction == NONE:
        return losses if batched else losses.squeeze(0)
    return losses.sum()


FUNCTIONS["ctc_loss"] = _reduced_loss


@nn_function
def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction="mean",
    zero_infinity=False,
):
    kind = reduction_number(reduction)
    return _reduced_loss(
        log_probs, targets, input_lengths, target_lengths, blank, kind, zero_infinity
    )
