"""Jacobians and Hessians of functions, row by row."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import enable_grad
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.func.gradients import (
    _Depth,
    chosen_inputs,
    differentiated,
    inside,
    leads_elsewhere,
    without_history,
)
from gradscope.runtime.utils._pytree import tree_flatten, tree_map, tree_unflatten


def jacrev(
    func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False, chunk_size: Any = None
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `func`, by one gradient per element."""

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        _Depth.now += 1
        try:
            with enable_grad():
                inputs, spec, made = chosen_inputs(args, argnums)
                result = inside(func, *made, **kwargs)
                value, aux = result if has_aux else (result, None)
                outputs, shape = tree_flatten(value)
                graph = _Depth.now > 1 or leads_elsewhere(outputs, inputs)
                found = [tree_unflatten(_rows(y, inputs, graph), spec) for y in outputs]
        finally:
            _Depth.now -= 1
        blocks = tree_unflatten(found, shape)
        return (blocks, tree_map(without_history, aux)) if has_aux else blocks

    return jacobian


def _rows(output: Any, inputs: list[Any], graph: bool) -> list[Any]:
    """For each input, the gradients of all elements of an output, in the output's shape."""
    rows = []
    for i in range(output.numel()):
        one = zeros_like(output)
        one.view(-1)[i] = 1
        rows.append(differentiated([output], inputs, [one], graph=graph))
    shape = tuple(output.shape)
    if not rows:
        return [x.new_zeros((*shape, *x.shape)) for x in inputs]
    columns = zip(*rows, strict=True)
    return [
        FUNCTIONS["stack"](list(column), 0).reshape((*shape, *x.shape))
        for column, x in zip(columns, inputs, strict=True)
    ]


def jacfwd(
    func: Callable[..., Any],
    argnums: Any = 0,
    has_aux: bool = False,
    *,
    chunk_size: Any = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """The same Jacobian; PyTorch computes it column by column."""
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """The Hessian: the Jacobian of the gradient of a function that returns one number."""
    return jacrev(jacrev(func, argnums), argnums)
