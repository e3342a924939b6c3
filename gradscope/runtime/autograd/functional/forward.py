"""The Jacobian in forward mode: one call of the function for each element of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.autograd import forward_ad
from gradscope.runtime.autograd.functional.arguments import table_as_given, tupled, unit_vectors
from gradscope.runtime.core.autograd.batched import one_by_one
from gradscope.runtime.core.errors.engine import functional as errors
from gradscope.runtime.core.tensors.making.factories import zeros_like


def jacobian_forward(
    func: Callable[..., Any], inputs: Any, *, strict: bool, vectorize: bool
) -> Any:
    """The Jacobian, by directional derivatives along each element of the inputs."""
    if strict:
        raise errors.functional_options(
            RuntimeError,
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are '
            "not supported together (yet). Please either set `strict=False` or "
            '`strategy="reverse-mode"`.',
        )
    is_tuple, inputs = tupled(inputs, "inputs", "jacobian")
    if not vectorize:
        raise errors.functional_options(
            NotImplementedError,
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`.",
        )
    outputs_are_tuple = False
    primals: tuple[Any, ...] = ()

    def jvp(*directions: Any) -> Sequence[Any]:
        nonlocal outputs_are_tuple, primals
        outputs_are_tuple, primals, tangents = derivatives(func, inputs, directions)
        return tangents

    columns = one_by_one(jvp, unit_vectors(inputs), "jvp")
    sizes = [one.numel() for one in inputs]
    table = [
        [
            block.movedim(0, -1).reshape(output.shape + one.shape)
            for block, one in zip(column.split(sizes), inputs, strict=True)
        ]
        for column, output in zip(columns, primals, strict=True)
    ]
    return table_as_given(table, outputs_are_tuple, is_tuple)


def derivatives(
    func: Callable[..., Any], inputs: Sequence[Any], directions: Sequence[Any]
) -> tuple[bool, tuple[Any, ...], tuple[Any, ...]]:
    """Whether `func` returns a tuple, its outputs, and their derivatives along `directions`."""
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(one, direction.view_as(one))
            for one, direction in zip(inputs, directions, strict=True)
        ]
        is_tuple, outputs = tupled(func(*duals), "outputs", "None")
        parts = [forward_ad.unpack_dual(output) for output in outputs]
    primals = tuple(primal for primal, _ in parts)
    tangents = tuple(
        zeros_like(primal) if tangent is None else tangent for primal, tangent in parts
    )
    return is_tuple, primals, tangents
