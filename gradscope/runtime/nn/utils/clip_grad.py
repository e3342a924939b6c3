"""Clipping of gradients."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.ops.shape.joining import stack
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import tensor
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def _length(tensor: Any, norm_type: float) -> Any:
    return FUNCTIONS["linalg.vector_norm"](tensor, norm_type)


def _listed(parameters: Any) -> list[Any]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


@no_grad()
def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Any:
    """The norm of all tensors as one vector."""
    found = _listed(tensors)
    norm_type = float(norm_type)
    if not found:
        return tensor(0.0)
    total = _length(stack([_length(one, norm_type) for one in found]), norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Any, foreach: Any = None
) -> None:
    """Scale all gradients so that a norm of `total_norm` becomes at most `max_norm`."""
    grads = [p.grad for p in _listed(parameters) if p.grad is not None]
    if not grads:
        return
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(scale)


@no_grad()
def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Any:
    """Scale all gradients so that their total norm is at most `max_norm`. Returns the old norm."""
    found = _listed(parameters)
    if isinstance(parameters, types.GeneratorType) and not found:
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3
        )
    grads = [p.grad for p in found if p.grad is not None]
    total_norm = get_total_norm(grads, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(found, max_norm, total_norm)
    return total_norm


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Any:
    """Deprecated name of clip_grad_norm_."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: Any = None
) -> None:
    """Clamp every element of every gradient to [-clip_value, clip_value]."""
    bound = float(clip_value)
    grads = [p.grad for p in _listed(parameters) if p.grad is not None]
    for grad in grads:
        grad.clamp_min_(-bound)
    for grad in grads:
        grad.clamp_max_(bound)
