"""Collectives of one tensor whose parts belong to ranks, and of lists of tensors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gradscope.runtime.distributed.calls.checks import (
    flat,
    left_out,
    one_tensor,
    put,
    several_tensors,
)
from gradscope.runtime.distributed.calls.collectives import carried_out, reduction
from gradscope.runtime.distributed.calls.telling import told, wrote
from gradscope.runtime.distributed.exchange.work import Work
from gradscope.runtime.distributed.groups import resolved
from gradscope.runtime.distributed.reduce_op import ReduceOp


def all_gather_single(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy the tensors of all ranks into one tensor, one after another."""
    return _all_gather("all_gather_single", output_tensor, input_tensor, group, async_op)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """The older name of `all_gather_single`."""
    _deprecated("all_gather_into_tensor", "all_gather_single")
    return _all_gather("all_gather_into_tensor", output_tensor, input_tensor, group, async_op)


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(
        f"`torch.distributed.{name}` is deprecated. Please use `torch.distributed.{instead}` "
        "instead.",
        FutureWarning,
        stacklevel=3,
    )


def _all_gather(name: str, into: Any, tensor: Any, group: Any, async_op: bool) -> Work | None:
    one_tensor(into, "output_tensor")
    one_tensor(tensor, "input_tensor")
    if left_out(group, name):
        return None
    found = resolved(group)
    mine, all_ = flat(tensor), flat(into)
    if all_.size != mine.size * found.size():
        raise ValueError("output tensor size must be equal to world_size times input tensor size")
    if all_.dtype != mine.dtype:
        raise TypeError("output tensor must have the same type as input tensor")

    def end() -> None:
        put(into, all_)
        wrote(into)

    with told(name, found, tensor, goes_on=async_op):
        work = Work(name, found, lambda: found.transport.all_gather(mine, all_), end, result=[into])
        return carried_out(work, async_op)


def reduce_scatter(
    output: Any, input_list: list[Any], op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Combine the lists of all ranks; each rank receives the element with its number."""
    one_tensor(output, "output")
    several_tensors(input_list, "input_list")
    if left_out(group, "reduce_scatter"):
        return None
    found = resolved(group)
    if len(input_list) != found.size():
        raise RuntimeError(
            f"reduce_scatter: input_list has {len(input_list)} tensors, and the group "
            f"{found.size()} ranks"
        )
    if flat(input_list[found.rank()]).size != flat(output).size:
        raise RuntimeError("reduce_scatter: the output has another size than this rank's input")
    return _reduce_scatter("reduce_scatter", output, input_list, op, found, async_op)


def reduce_scatter_single(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all ranks; each rank receives the part with its number."""
    return _from_one("reduce_scatter_single", output, input, op, group, async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The older name of `reduce_scatter_single`."""
    _deprecated("reduce_scatter_tensor", "reduce_scatter_single")
    return _from_one("reduce_scatter_tensor", output, input, op, group, async_op)


def _from_one(
    name: str, output: Any, input: Any, op: Any, group: Any, async_op: bool
) -> Work | None:
    one_tensor(output, "output")
    one_tensor(input, "input")
    if left_out(group, name):
        return None
    found = resolved(group)
    if flat(output).size * found.size() != flat(input).size:
        raise ValueError("input tensor must be the same size as output size times world size")
    return _reduce_scatter(name, output, [input], op, found, async_op)


def _reduce_scatter(
    name: str, output: Any, inputs: list[Any], op: Any, group: Any, async_op: bool
) -> Work | None:
    """All parts are reduced, and each rank keeps its own."""
    elements = np.concatenate([flat(each) for each in inputs])
    start, finish = reduction(group, elements, op, name)
    if len(inputs) == 1:
        first = group.rank() * flat(output).size
    else:
        first = sum(flat(each).size for each in inputs[: group.rank()])

    def end() -> None:
        finish()
        put(output, elements[first : first + flat(output).size])
        wrote(output)

    with told(name, group, inputs[0], goes_on=async_op):
        return carried_out(Work(name, group, start, end, result=[output]), async_op)


def all_to_all(
    output_tensor_list: list[Any], input_tensor_list: list[Any], group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Each rank sends each other rank a tensor of its list."""
    several_tensors(output_tensor_list, "output_tensor_list")
    several_tensors(input_tensor_list, "input_tensor_list")
    if left_out(group, "all_to_all"):
        return None
    found = resolved(group)
    for tensors in (output_tensor_list, input_tensor_list):
        if len(tensors) != found.size():
            raise RuntimeError(
                f"all_to_all: the list has {len(tensors)} tensors, and the group {found.size()} "
                "ranks"
            )
    counts = [flat(each).size for each in output_tensor_list]
    mine = np.concatenate([flat(each) for each in input_tensor_list])
    theirs = np.empty(sum(counts), mine.dtype)

    def end() -> None:
        for each, part in zip(
            output_tensor_list, np.split(theirs, np.cumsum(counts)[:-1]), strict=True
        ):
            put(each, part)
        wrote(*output_tensor_list)

    def start() -> list[Any]:
        sent = [flat(each).size for each in input_tensor_list]
        return found.transport.all_to_all(mine, theirs, sent, counts)

    with told("all_to_all", found, input_tensor_list[0], goes_on=async_op):
        work = Work("all_to_all", found, start, end, result=[*output_tensor_list])
        return carried_out(work, async_op)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Each rank sends each other rank a part of its tensor, along the first dim."""
    one_tensor(output, "output")
    one_tensor(input, "input")
    if left_out(group, "all_to_all_single"):
        return None
    found = resolved(group)
    mine, theirs = flat(input), flat(output)
    sent, received = (
        _split(input, input_split_sizes, found),
        _split(output, output_split_sizes, found),
    )

    def end() -> None:
        put(output, theirs)
        wrote(output)

    with told("all_to_all_single", found, input, goes_on=async_op):
        work = Work(
            "all_to_all_single", found,
            lambda: found.transport.all_to_all(mine, theirs, sent, received), end, result=[output],
        )  # fmt: skip
        return carried_out(work, async_op)


def _split(tensor: Any, along: list[int] | None, group: Any) -> list[int]:
    """The number of elements for each rank."""
    array, size = tensor._array, group.size()
    rows = array.shape[0] if array.ndim else 1
    if not along:
        if rows % size:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        along = [rows // size] * size
    if len(along) != size:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(along) != rows:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    row = array.size // rows if rows else 0
    return [each * row for each in along]


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine several tensors of all ranks, in place, in one collective."""
    tensors = tensors if isinstance(tensors, list) else [tensors]
    several_tensors(tensors, "tensors")
    if left_out(group, "all_reduce_coalesced"):
        return None
    found = resolved(group)
    if len({each.dtype for each in tensors}) > 1:
        raise ValueError("tensors must all have the same type")
    elements = np.concatenate([flat(each) for each in tensors])
    start, finish = reduction(found, elements, op, "all_reduce_coalesced")

    def end() -> None:
        finish()
        ends = np.cumsum([each._array.size for each in tensors])[:-1]
        for each, part in zip(tensors, np.split(elements, ends), strict=True):
            put(each, part)
        wrote(*tensors)

    with told("all_reduce_coalesced", found, tensors[0], goes_on=async_op):
        work = Work("all_reduce_coalesced", found, start, end, result=[*tensors])
        return carried_out(work, async_op)
