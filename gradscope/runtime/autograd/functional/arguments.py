"""Arguments and results of these functions: tuples or single tensors, fresh inputs, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.errors.engine import functional as errors
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

OUTPUTS = "outputs of the user-provided function"


def tupled(value: Any, what: str, caller: str) -> tuple[bool, tuple[Any, ...]]:
    """Whether a tuple was given, and the tuple. Refuses anything but tensors."""
    is_tuple = isinstance(value, tuple)
    items = value if is_tuple else (value,)
    for index, item in enumerate(items):
        if not isinstance(item, Tensor):
            which = f"value at index {index}" if is_tuple else f"given {what}"
            raise errors.functional_type(what, caller, which, type(item))
    return is_tuple, items


def as_given(results: Sequence[Any], is_tuple: bool) -> Any:
    """A tuple if a tuple was given, otherwise the single tensor."""
    return results if is_tuple else results[0]


def table_as_given(table: Sequence[Any], rows_are_tuple: bool, columns_are_tuple: bool) -> Any:
    """The same for a table with a row per output and a column per input."""
    if not columns_are_tuple:
        table = tuple(row[0] for row in table)
    return table if rows_are_tuple else table[0]


def fresh(tensors: Sequence[Any], *, create_graph: bool, needs_grad: bool) -> tuple[Any, ...]:
    """New tensors with the same values, part of the graph if the result is differentiated again.

    Always new ones: a function that also captured its own arguments is then differentiated by its
    arguments only.
    """
    return tuple(
        tensor.view_as(tensor)
        if create_graph and tensor.requires_grad
        else tensor.detach().requires_grad_(needs_grad)
        for tensor in tensors
    )


def finished(results: Sequence[Any], *, create_graph: bool) -> tuple[Any, ...]:
    """Results (or rows of them), detached unless create_graph is set."""
    if create_graph:
        return tuple(results)
    return tuple(
        one.detach() if isinstance(one, Tensor) else finished(one, create_graph=False)
        for one in results
    )


def vector(v: Any, like: Sequence[Any], like_is_tuple: bool, caller: str, **how: bool) -> Any:
    """The vector of a product. It must have the sizes of `like`."""
    _, given = tupled(v, "v", caller)
    made = fresh(given, needs_grad=False, **how)
    if len(made) != len(like):
        raise errors.functional_vector(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(made)}."
            if like_is_tuple
            else "The given v should contain a single Tensor."
        )
    for index, (part, wanted) in enumerate(zip(made, like, strict=True)):
        if part.shape != wanted.shape:
            place = f"Entry {index} in " if like_is_tuple else ""
            raise errors.functional_vector(
                f"{place}v has invalid size: should be {wanted.shape} but got {part.shape}."
            )
    return made


def vector_of_inputs(
    v: Any,
    inputs: Sequence[Any],
    is_tuple: bool,
    caller: str,
    **how: bool,
) -> Any:
    """The vector of a product with a function's inputs. None means a single 1."""
    if v is not None:
        return vector(v, inputs, is_tuple, caller, **how)
    if len(inputs) != 1 or inputs[0].numel() != 1:
        raise errors.functional_vector(
            "The vector v can only be None if the input to the user-provided function is a single "
            "Tensor with a single element."
        )
    return None


def unit_vectors(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """The unit vectors: for each tensor, one row per element of any of them."""
    return _construct_standard_basis_for(tensors, [tensor.numel() for tensor in tensors])


def _construct_standard_basis_for(tensors: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, ...]:
    """The same for tensors of which these are the sizes."""
    if len(tensors) != len(sizes):
        raise AssertionError(
            "Expected tensors and tensor_numels to have the same length, but got "
            f"{len(tensors)} and {len(sizes)}"
        )
    if not tensors:
        raise AssertionError("Expected at least one tensor")
    made = tuple(t.new_zeros(sum(sizes), size) for t, size in zip(tensors, sizes, strict=True))
    first = 0
    for block, size in zip(made, sizes, strict=True):
        block[first : first + size].fill_diagonal_(1)
        first += size
    return made
