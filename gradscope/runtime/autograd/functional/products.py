"""Products of the Jacobian or the Hessian with a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gradscope.runtime.autograd.functional.arguments import (
    OUTPUTS,
    as_given,
    finished,
    fresh,
    tupled,
    vector,
    vector_of_inputs,
)
from gradscope.runtime.autograd.functional.strictness import (
    ENTRY,
    GRAD_INPUT,
    HESSIAN_ENTRY,
    INDEPENDENT,
    JACOBIAN,
    JACOBIAN_INDEPENDENT,
    OUTPUT,
    filled,
    gradients,
    require_grads,
)
from gradscope.runtime.core.autograd.modes.grad_mode import (
    enable_grad,
    is_grad_enabled,
    set_grad_enabled,
)
from gradscope.runtime.core.errors.engine import functional as errors
from gradscope.runtime.core.tensors.making.factories import zeros_like


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`func(*inputs)`, and the product of `v` with the Jacobian."""
    with enable_grad():
        is_tuple, inputs = tupled(inputs, "inputs", "vjp")
        inputs = fresh(inputs, create_graph=create_graph, needs_grad=True)
        outputs_are_tuple, outputs = tupled(func(*inputs), OUTPUTS, "vjp")
        require_grads(outputs, OUTPUT, strict=strict)
        if v is not None:
            v = vector(v, outputs, outputs_are_tuple, "vjp", create_graph=create_graph)
        elif len(outputs) != 1 or outputs[0].numel() != 1:
            raise errors.functional_vector(
                "The vector v can only be None if the user-provided function returns a single "
                "Tensor with a single element."
            )
    how = {"strict": strict, "create_graph": create_graph}
    found = _product(outputs, inputs, v, inputs, (INDEPENDENT, "jacobian"), **how)
    return _pair(outputs, outputs_are_tuple, found, is_tuple, create_graph=create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`func(*inputs)`, and the product of the Jacobian with `v`.

    It takes two backwards: the product of a vector with the Jacobian is linear in that vector, and
    its derivative is the transposed Jacobian.
    """
    with enable_grad():
        is_tuple, inputs = tupled(inputs, "inputs", "jvp")
        inputs = fresh(inputs, create_graph=create_graph, needs_grad=True)
        v = vector_of_inputs(v, inputs, is_tuple, "jvp", create_graph=create_graph)
        outputs_are_tuple, outputs = tupled(func(*inputs), OUTPUTS, "jvp")
        require_grads(outputs, OUTPUT, strict=strict)
        any_vector = tuple(zeros_like(output, requires_grad=True) for output in outputs)
        products = gradients(outputs, inputs, any_vector, create_graph=True)
        require_grads(products, GRAD_INPUT, strict=strict)
    how = {"strict": strict, "create_graph": create_graph}
    found = _product(products, any_vector, v, outputs, (ENTRY, "jacobian"), **how)
    return _pair(outputs, outputs_are_tuple, found, outputs_are_tuple, create_graph=create_graph)


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`func(*inputs)`, a single number, and the product of `v` with the Hessian."""
    with enable_grad():
        at = _jacobian_at(func, inputs, v, "vhp", create_graph=create_graph, strict=strict)
    how = {"strict": strict, "create_graph": create_graph}
    found = _product(
        at.jacobian, at.inputs, at.v, at.inputs, (JACOBIAN_INDEPENDENT, "hessian"), **how
    )
    return _pair(at.outputs, False, found, at.is_tuple, create_graph=create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`func(*inputs)`, a single number, and the product of the Hessian with `v`.

    Slower than `vhp`, by the extra backward that `jvp` needs, too.
    """
    with enable_grad():
        at = _jacobian_at(func, inputs, v, "hvp", create_graph=create_graph, strict=strict)
        any_vector = tuple(zeros_like(one, requires_grad=True) for one in at.inputs)
        products = gradients(at.jacobian, at.inputs, any_vector, create_graph=True)
    how = {"strict": strict, "create_graph": create_graph}
    found = _product(products, any_vector, at.v, at.inputs, (HESSIAN_ENTRY, "hessian"), **how)
    return _pair(at.outputs, False, found, at.is_tuple, create_graph=create_graph)


def _product(
    outputs: Any,
    inputs: Any,
    v: Any,
    like: Any,
    words: tuple[str, str],
    *,
    strict: bool,
    create_graph: bool,
) -> tuple[Any, ...]:
    """The product of `v` with the gradients of outputs by inputs. `words` are texts of errors."""
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = gradients(outputs, inputs, v, create_graph=create_graph)
        return filled(found, like, *words, strict=strict, create_graph=create_graph)


class _Jacobian(NamedTuple):
    """The Jacobian of a function that returns one number, with its graph."""

    is_tuple: bool
    inputs: tuple[Any, ...]
    v: tuple[Any, ...] | None
    outputs: tuple[Any, ...]
    jacobian: tuple[Any, ...]


def _jacobian_at(
    func: Callable[..., Any], inputs: Any, v: Any, caller: str, *, create_graph: bool, strict: bool
) -> _Jacobian:
    is_tuple, inputs = tupled(inputs, "inputs", caller)
    inputs = fresh(inputs, create_graph=create_graph, needs_grad=True)
    v = vector_of_inputs(v, inputs, is_tuple, caller, create_graph=create_graph)
    outputs_are_tuple, outputs = tupled(func(*inputs), OUTPUTS, caller)
    require_grads(outputs, OUTPUT, strict=strict)
    if outputs_are_tuple:
        raise errors.functional_one_number(
            f"The function given to {caller} should return a single Tensor"
        )
    if outputs[0].numel() != 1:
        raise errors.functional_one_number(
            f"The Tensor returned by the function given to {caller} should contain a single element"
        )
    found = gradients(outputs, inputs, None, create_graph=True)
    require_grads(found, JACOBIAN, strict=strict)
    return _Jacobian(is_tuple, inputs, v, outputs, tuple(found))


def _pair(
    outputs: Any,
    outputs_are_tuple: bool,
    found: Any,
    found_is_tuple: bool,
    *,
    create_graph: bool,
) -> tuple[Any, Any]:
    """The value and the product, in the structure that the caller expects."""
    return (
        as_given(finished(outputs, create_graph=create_graph), outputs_are_tuple),
        as_given(finished(found, create_graph=create_graph), found_is_tuple),
    )
