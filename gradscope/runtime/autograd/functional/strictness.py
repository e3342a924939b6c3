"""Independent inputs and outputs: zeros for missing gradients, or an error in strict mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.autograd.engine.backward import grad
from gradscope.runtime.core.errors.engine import functional as errors
from gradscope.runtime.core.tensors.making.factories import zeros_like

OUTPUT = (
    "Output {i} of the user-provided function does not require gradients. The outputs must be "
    "computed in a differentiable manner from the input when running in strict mode."
)
GRAD_INPUT = (
    "The gradient with respect to input {i} is independent of the inputs of the user-provided "
    "function. This is not allowed in strict mode."
)
JACOBIAN = (
    "While computing the hessian, found that the jacobian of the user-provided function with "
    "respect to input {i} is independent of the input. This is not allowed in strict mode. You "
    "should ensure that your function is twice differentiable and that the jacobian depends on the "
    "inputs (this would be violated by a linear function for example)."
)
INDEPENDENT = (
    "The output of the user-provided function is independent of input {i}. This is not allowed in "
    "strict mode."
)
ENTRY = (
    "The gradient with respect to the input is independent of entry {i} in the grad_outputs when "
    "using the double backward trick to compute forward mode gradients. This is not allowed in "
    "strict mode."
)
JACOBIAN_INDEPENDENT = (
    "The jacobian of the user-provided function is independent of input {i}. This is not allowed "
    "in strict mode."
)
HESSIAN_ENTRY = (
    "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. "
    "This is not allowed in strict mode as it prevents from using the double backward trick to "
    "replace forward mode AD."
)
CONSTANT = (
    "The {what} of the user-provided function is independent of input {i}. This is not allowed in "
    "strict mode when create_graph=True."
)


def require_grads(tensors: Sequence[Any], text: str, *, strict: bool) -> None:
    """In strict mode, check that each tensor requires grad. `text` is the error."""
    for i, tensor in enumerate(tensors if strict else ()):
        if tensor is None:
            raise errors.not_dependent(INDEPENDENT.format(i=i))
        if not tensor.requires_grad:
            raise errors.not_dependent(text.format(i=i))


def gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], vectors: Sequence[Any] | None, **how: Any
) -> Sequence[Any]:
    """The gradients of the outputs that require grad; all None if none does."""
    given = (None,) * len(outputs) if vectors is None else vectors
    pairs = [
        (output, v)
        for output, v in zip(outputs, given, strict=True)
        if output is not None and output.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    found: Sequence[Any] = grad(
        tuple(output for output, _ in pairs),
        inputs,
        tuple(v for _, v in pairs),
        allow_unused=True,
        **how,
    )
    return found


def filled(
    grads: Sequence[Any],
    like: Sequence[Any],
    missing: str,
    what: str,
    *,
    strict: bool,
    create_graph: bool,
) -> tuple[Any, ...]:
    """Replace missing gradients by zeros; in strict mode, raise an error."""
    for i, gradient in enumerate(grads if strict else ()):
        if gradient is None:
            raise errors.not_dependent(missing.format(i=i))
        if create_graph and not gradient.requires_grad:
            raise errors.not_dependent(CONSTANT.format(what=what, i=i))
    return tuple(
        zeros_like(one) if gradient is None else gradient
        for gradient, one in zip(grads, like, strict=True)
    )
