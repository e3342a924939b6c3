"""jacrev, jacfwd and hessian: whole Jacobians, row by row or column by column."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from gradscope.runtime.autograd.grad_mode import enable_grad
from gradscope.runtime.factories import zeros_like
from gradscope.runtime.func import level, products, trees
from gradscope.runtime.ops import FUNCTIONS


def _check_real(name: str, which: str, tensors: list[Any]) -> None:
    for i, tensor in enumerate(tensors):
        if tensor.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {which} to be real but received complex tensor at flattened "
                f"input idx: {i}"
            )


def _units(tensor: Any) -> Any:
    """For each number of a tensor, zeros with a one in its place."""
    for i in range(tensor.numel()):
        made = zeros_like(tensor)
        made.view(-1)[i] = 1
        yield made


def jacrev(
    func: Callable[..., Any],
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, one backward for each row."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @wraps(func)
    def wrapper(*args: Any) -> Any:
        chosen = products.picked(argnums, args)
        _check_real("jacrev", "inputs", trees.tensors_in(args))
        with enable_grad():
            given = level.fresh(chosen, "jacrev")
            name = "vjp(f, *primals)"
            made = func(*products.replaced(argnums, args, given))
            output, aux = products.with_aux(made, name, has_aux=has_aux)
            outputs = products._checked(output, name, "*primals")
            _check_real("jacrev", "outputs", outputs)
            inputs = trees.leaves(given)
            blocks = [_rows(one, inputs) for one in outputs]
        table = trees.refilled(output, iter(trees.refilled(given, iter(b)) for b in blocks))
        table = level.kept(table, inputs)
        return (table, level.kept(aux, inputs)) if has_aux else table

    return wrapper


def _rows(output: Any, inputs: list[Any]) -> list[Any]:
    """The Jacobian of one output by each input."""
    rows = [level.gradients([output], inputs, [unit]) for unit in _units(output)]
    if not rows:
        return [one.new_zeros((*output.shape, *one.shape)) for one in inputs]
    stack = FUNCTIONS["stack"]
    return [
        stack([row[i] for row in rows]).view(*output.shape, *one.shape)
        for i, one in enumerate(inputs)
    ]


def jacfwd(
    func: Callable[..., Any],
    argnums: Any = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, column by column."""

    @wraps(func)
    def wrapper(*args: Any) -> Any:
        chosen = products.picked(argnums, args)
        _check_real("jacfwd", "inputs", trees.tensors_in(args))

        def of_chosen(*given: Any) -> Any:
            values = given if isinstance(argnums, tuple) else given[0]
            return func(*products.replaced(argnums, args, values))

        primals = chosen if isinstance(argnums, tuple) else (chosen,)
        inputs = trees.leaves(primals)
        columns, output, aux = [], None, None
        for i, one in enumerate(inputs):
            part = []
            for unit in _units(one):
                vectors = [unit if j == i else zeros_like(other) for j, other in enumerate(inputs)]
                tangents = trees.refilled(primals, iter(vectors))
                found = products.jvp(of_chosen, primals, tangents, has_aux=has_aux)
                output, aux = found[0], found[2] if has_aux else None
                part.append(trees.leaves(found[1]))
            columns.append(part)
        blocks = [
            trees.refilled(chosen, iter(_columns(out, j, inputs, columns)))
            for j, out in enumerate(trees.leaves(output))
        ]
        table = trees.refilled(output, iter(blocks))
        return (table, aux) if has_aux else table

    return wrapper


def _columns(output: Any, j: int, inputs: list[Any], columns: list[Any]) -> list[Any]:
    """The Jacobian of one output by each input, from its columns."""
    stack = FUNCTIONS["stack"]
    return [
        stack([leaves[j] for leaves in part], -1).view(*output.shape, *one.shape)
        for one, part in zip(inputs, columns, strict=True)
    ]


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of `func`."""
    return jacrev(jacrev(func, argnums), argnums)
