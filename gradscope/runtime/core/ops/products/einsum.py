"""einsum: sums of products by letters, decomposed as in PyTorch.

Every operand gets all dims in one order (those of the result, then those that are summed), and
pairs of operands are multiplied as batches of matrices, from the left.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import NamedTuple

from gradscope.runtime.core.ops.products.linalg import bmm
from gradscope.runtime.core.ops.shape.shape import reshape
from gradscope.runtime.core.rows.offered import function

DOTS = "..."


class Equation(NamedTuple):
    """A parsed equation: the labels of each operand and of the result."""

    operands: tuple[tuple[str, ...], ...]
    result: tuple[str, ...] | None


@cache
def parsed(equation):
    left, arrow, right = equation.partition("->")
    operands = tuple(_labels(part, nr) for nr, part in enumerate(left.split(",")))
    return Equation(operands, _labels(right, None) if arrow else None)


def _labels(part, operand):
    found, rest = [], part.replace(" ", "")
    place = "output" if operand is None else f"operand {operand}"
    while rest:
        if rest.startswith(DOTS):
            if DOTS in found:
                raise RuntimeError(
                    f"einsum(): found '.' for {place} for which an ellipsis was already found"
                )
            found.append(DOTS)
            rest = rest[3:]
            continue
        letter, rest = rest[0], rest[1:]
        if letter == ".":
            raise RuntimeError(f"einsum(): found '.' for {place} that is not part of any ellipsis")
        if not (letter.isascii() and letter.isalpha()):
            where = "output" if operand is None else "operand"
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {part.index(letter)} in the equation "
                f"string, subscripts must be in [a-zA-Z]"
                if operand is not None
                else f"einsum(): invalid subscript given in the {where}"
            )
        found.append(letter)
    return tuple(found)


@function
def einsum(equation, *operands):
    """The sum of products of an equation like "ij,jk->ik"."""
    if len(operands) == 1 and isinstance(operands[0], tuple | list):
        operands = tuple(operands[0])
    if not operands:
        raise RuntimeError("einsum(): must provide at least one operand")
    read = parsed(equation)
    if len(read.operands) != len(operands):
        more = "more" if len(operands) > len(read.operands) else "fewer"
        raise RuntimeError(
            f"einsum(): {more} operands were provided than specified in the equation"
        )
    dotted = _dotted_dims(read, operands)
    order, kept = _order(read, dotted)
    ready = [
        _placed(operand, labels, order, dotted, nr)
        for nr, (operand, labels) in enumerate(zip(operands, read.operands, strict=True))
    ]
    _check_sizes(ready, order)
    return _contracted(ready, kept, len(order))


def _dotted_dims(read, operands):
    """The number of dims that "..." stands for."""
    most = 0
    for nr, (labels, operand) in enumerate(zip(read.operands, operands, strict=True)):
        named = len([label for label in labels if label != DOTS])
        if DOTS in labels:
            most = max(most, operand.dim() - named)
        if (DOTS in labels and named > operand.dim()) or (
            DOTS not in labels and named != operand.dim()
        ):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) "
                + (
                    f"is more than the number of dimensions ({operand.dim()}) for operand {nr}"
                    if DOTS in labels
                    else f"does not match the number of dimensions ({operand.dim()}) for operand "
                    f"{nr} and no ellipsis was given"
                )
            )
    return most


@cache
def _order(read, dotted):
    """All labels in one order, and how many of them, at the start, the result has."""
    used = [label for labels in read.operands for label in labels if label != DOTS]
    dots = [f"{DOTS}{i}" for i in range(dotted)]
    if read.result is None:
        kept = [*dots, *sorted(label for label in set(used) if used.count(label) == 1)]
    else:
        kept = []
        for label in read.result:
            if label != DOTS and label in kept:
                raise RuntimeError(
                    f"einsum(): output subscript {label} appears more than once in the output"
                )
            if label != DOTS and label not in used:
                raise RuntimeError(
                    f"einsum(): output subscript {label} does not appear in the equation for any "
                    "input operand"
                )
            kept += dots if label == DOTS else [label]
    summed = [dot for dot in dots if dot not in kept]
    summed += [label for label in sorted(set(used)) if label not in kept]
    return (*kept, *summed), len(kept)


def _placed(operand, labels, order, dotted, nr):
    """An operand with a dim for every label, in the common order."""
    place, dim, ndim = {}, 0, operand.dim()
    for label in labels:
        if label == DOTS:
            # Missing dims of "..." are leading ones, as in broadcasting.
            for i in range(dotted - (ndim - len(labels) + 1), dotted):
                place[f"{DOTS}{i}"] = dim
                dim += 1
        elif label in place:
            operand = _on_diagonal(operand, place[label], dim, label, nr)
        else:
            place[label] = dim
            dim += 1
    for label in order:
        if label not in place:
            operand = operand.unsqueeze(dim)
            place[label] = dim
            dim += 1
    return operand.permute(*(place[label] for label in order))


def _on_diagonal(operand, first, second, label, nr):
    sizes = operand._array.shape
    if sizes[first] != sizes[second]:
        raise RuntimeError(
            f"einsum(): subscript {label} is repeated for operand {nr} but the sizes don't match, "
            f"{sizes[second]} != {sizes[first]}"
        )
    return operand.diagonal(0, first, second).movedim(-1, first)


def _check_sizes(operands, order):
    for dim, label in enumerate(order):
        seen = 1
        for nr, operand in enumerate(operands):
            size = operand._array.shape[dim]
            if size != 1 and seen not in (1, size):
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {size} for operand {nr} which does not "
                    f"broadcast with previously seen size {seen}"
                )
            seen = size if size != 1 else seen


def _contracted(operands, kept, count):
    uses = [sum(o._array.shape[dim] != 1 for o in operands) for dim in range(count)]
    made, several = operands[0], len(operands) > 1
    for other in operands[1:]:
        made = _pair_contracted(made, other, uses, kept, count)
    if count == kept:
        return made
    if several:
        return made.view(made._array.shape[:kept])
    return made.sum(tuple(range(kept, count)))


def _pair_contracted(left, right, uses, kept, count):
    """Multiply two operands and sum over the dims that no other operand has."""
    alone_left: list[int] = []
    alone_right: list[int] = []
    shared: list[int] = []
    for dim in range(kept, count):
        wide_left, wide_right = left._array.shape[dim] != 1, right._array.shape[dim] != 1
        if wide_left and wide_right:
            uses[dim] -= 1
            if uses[dim] == 1:
                shared.append(dim)
                uses[dim] = 0
        elif uses[dim] == 1 and (wide_left or wide_right):
            (alone_left if wide_left else alone_right).append(dim)
            uses[dim] = 0
    if alone_left:
        left = left.sum(tuple(alone_left), True)
    if alone_right:
        right = right.sum(tuple(alone_right), True)
    return _product_sum(left, right, shared)


def _sorted_dims(left, right, summed):
    """The dims that both operands have, those of the left one only, and the rest."""
    both: list[int] = []
    lefts: list[int] = []
    rights: list[int] = []
    sizes, others = left._array.shape, right._array.shape
    for dim in (d for d in range(len(sizes)) if d not in summed):
        wide = sizes[dim] != 1, others[dim] != 1
        (both if all(wide) else lefts if wide[0] else rights).append(dim)
    return both, lefts, rights


def _product_sum(left, right, summed):
    """Products of two operands, summed over some dims, which stay with size 1."""
    if not summed:
        return left * right
    both, lefts, rights = _sorted_dims(left, right, summed)
    if lefts and rights and rights[-1] < lefts[0]:
        left, right, lefts, rights = right, left, rights, lefts
    sizes, others = left._array.shape, right._array.shape
    shape = (
        *(sizes[d] for d in both),
        *(sizes[d] for d in lefts),
        *(1 for _ in summed),
        *(others[d] for d in rights),
    )
    batch, inner = prod(sizes[d] for d in both), prod(sizes[d] for d in summed)
    rows, columns = prod(sizes[d] for d in lefts), prod(others[d] for d in rights)
    matrices = reshape(left.permute(*both, *lefts, *summed, *rights), (batch, rows, inner))
    other = reshape(right.permute(*both, *summed, *rights, *lefts), (batch, inner, columns))
    order = [*both, *lefts, *summed, *rights]
    back = [order.index(dim) for dim in range(len(order))]
    return bmm(matrices, other).view(shape).permute(*back)
