"""The full Jacobian and Hessian of a function at a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.autograd.functional.arguments import (
    OUTPUTS,
    finished,
    fresh,
    table_as_given,
    tupled,
    unit_vectors,
)
from gradscope.runtime.autograd.functional.forward import jacobian_forward
from gradscope.runtime.autograd.functional.strictness import (
    CONSTANT,
    JACOBIAN,
    OUTPUT,
    gradients,
    require_grads,
)
from gradscope.runtime.core.autograd.modes.grad_mode import enable_grad
from gradscope.runtime.core.errors.engine import functional as errors
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import zeros_like

STRATEGIES = ("forward-mode", "reverse-mode")
NAME = "torch.autograd.functional.jacobian"


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivative of each element of the output by each element of the input.

    Its shape is output + input. For tuples, a row per output with a column per input.
    """
    if strategy not in STRATEGIES:
        raise errors.functional_options(
            AssertionError,
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".',
        )
    if strategy == "forward-mode":
        if create_graph:
            raise errors.functional_options(
                NotImplementedError,
                f'{NAME}: `create_graph=True` and `strategy="forward-mode"` are not supported '
                "together (yet). Please either set `create_graph=False` or "
                '`strategy="reverse-mode"`.',
            )
        return jacobian_forward(func, inputs, strict=strict, vectorize=vectorize)
    with enable_grad():
        is_tuple, inputs = tupled(inputs, "inputs", "jacobian")
        inputs = fresh(inputs, create_graph=create_graph, needs_grad=True)
        outputs_are_tuple, outputs = tupled(func(*inputs), OUTPUTS, "jacobian")
        require_grads(outputs, OUTPUT, strict=strict)
        if not vectorize:
            table = _row_by_row(outputs, inputs, create_graph=create_graph, strict=strict)
        elif strict:
            raise errors.functional_options(
                RuntimeError,
                f"{NAME}: `strict=True` and `vectorized=True` are not supported together. Please "
                "either set `strict=False` or `vectorize=False`.",
            )
        else:
            table = _batched(outputs, inputs, create_graph=create_graph)
        table = finished(table, create_graph=create_graph)
        return table_as_given(table, outputs_are_tuple, is_tuple)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function that returns one number."""
    is_tuple, inputs = tupled(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in STRATEGIES:
        raise errors.functional_options(
            AssertionError, 'Expected strategy to be either "forward-mode" or "reverse-mode".'
        )

    def number(*given: Any) -> Any:
        return _single_number(func(*given), strict=strict)

    def inner(*given: Any) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            given = tuple(one.requires_grad_() for one in given)
        found = jacobian(number, given, create_graph=True)
        require_grads(found, JACOBIAN, strict=strict)
        return found

    table = jacobian(
        inner,
        inputs,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return table_as_given(table, is_tuple, is_tuple)


def _single_number(output: Any, *, strict: bool) -> Any:
    is_tuple, outputs = tupled(output, OUTPUTS, "hessian")
    require_grads(outputs, OUTPUT, strict=strict)
    if is_tuple:
        raise errors.functional_one_number(
            "The function given to hessian should return a single Tensor"
        )
    if output.numel() != 1:
        raise errors.functional_one_number(
            "The Tensor returned by the function given to hessian should contain a single element"
        )
    return output.squeeze()


def _row_by_row(
    outputs: Sequence[Any], inputs: Sequence[Any], *, create_graph: bool, strict: bool
) -> tuple[Any, ...]:
    """One backward for each element of each output."""
    return tuple(
        _rows_of(output, i, inputs, create_graph=create_graph, strict=strict)
        for i, output in enumerate(outputs)
    )


def _rows_of(
    output: Any, i: int, inputs: Sequence[Any], *, create_graph: bool, strict: bool
) -> tuple[Any, ...]:
    columns: list[list[Any]] = [[] for _ in inputs]
    for j in range(output.numel()):
        number = output.reshape(-1)[j]
        found = gradients((number,), inputs, None, retain_graph=True, create_graph=create_graph)
        for k, (column, gradient, one) in enumerate(zip(columns, found, inputs, strict=True)):
            if strict and gradient is None:
                raise errors.not_dependent(
                    f"Output {i} of the user-provided function is independent of input {k}. This "
                    "is not allowed in strict mode."
                )
            if strict and create_graph and not gradient.requires_grad:
                raise errors.not_dependent(CONSTANT.format(what="jacobian", i=i))
            column.append(zeros_like(one) if gradient is None else gradient)
    stack = FUNCTIONS["stack"]
    return tuple(
        stack(column).view(output.shape + one.shape)
        for column, one in zip(columns, inputs, strict=True)
    )


def _batched(
    outputs: Sequence[Any], inputs: Sequence[Any], *, create_graph: bool
) -> tuple[Any, ...]:
    """All rows in one batched backward."""
    sizes = [output.numel() for output in outputs]
    flat = tuple(output.reshape(-1) for output in outputs)
    found = gradients(
        flat, inputs, unit_vectors(outputs), create_graph=create_graph, is_grads_batched=True
    )
    columns = [
        (zeros_like(one).expand(sum(sizes), *one.shape) if gradient is None else gradient)
        for gradient, one in zip(found, inputs, strict=True)
    ]
    blocks = [
        [
            rows.view(output.shape + one.shape)
            for rows, output in zip(column.split(sizes), outputs, strict=True)
        ]
        for column, one in zip(columns, inputs, strict=True)
    ]
    return tuple(zip(*blocks, strict=True))
