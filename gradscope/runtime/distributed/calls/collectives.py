"""Collectives: all ranks of a group call the same one, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradscope.runtime.distributed.calls import checks
from gradscope.runtime.distributed.calls.checks import (
    flat,
    left_out,
    one_tensor,
    put,
    several_tensors,
)
from gradscope.runtime.distributed.calls.telling import told, wrote
from gradscope.runtime.distributed.exchange.progress import progress
from gradscope.runtime.distributed.exchange.transport import (
    gathered_and_combined,
    is_reduced_by_mpi,
)
from gradscope.runtime.distributed.exchange.work import Work
from gradscope.runtime.distributed.groups import ProcessGroup, resolved, root_of
from gradscope.runtime.distributed.reduce_op import ReduceOp, basic, checked, combine, divide


def carried_out(work: Work, async_op: bool) -> Work | None:
    """Queue a collective, or wait for it. None: it has ended."""
    if async_op:
        progress.queue(work)
        return work
    progress.run(work)
    return None


def reduction(
    group: ProcessGroup, elements: Any, op: Any, name: str = "all_reduce"
) -> tuple[Callable[[], list[Any]], Callable[[], object]]:
    """How elements are reduced in place: how it begins, and what is done at the end."""
    op, transport = checked(op, elements.dtype, name), group.transport
    if is_reduced_by_mpi(elements):
        return (
            lambda: transport.all_reduce(elements, basic(op)),
            lambda: divide(elements, op, transport.size),
        )
    parts: list[Any] = []

    def start() -> list[Any]:
        requests, everybodys = gathered_and_combined(transport, elements, basic(op))
        parts.append(everybodys)
        return requests

    def finish() -> None:
        elements[...] = combine(parts[0], basic(op))
        divide(elements, op, transport.size)

    return start, finish


def reduced(group: ProcessGroup, elements: Any, op: Any, name: str) -> Work:
    """Work that reduces elements in place, for groups' own use."""
    return Work(name, group, *reduction(group, elements, op, name))


def all_reduce(
    tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all ranks, in place."""
    one_tensor(tensor, "tensor")
    if left_out(group, "all_reduce"):
        return None
    found = resolved(group)
    elements = flat(tensor)
    start, finish = reduction(found, elements, op)

    def end() -> None:
        finish()
        put(tensor, elements)
        wrote(tensor)

    with told("all_reduce", found, tensor, goes_on=async_op):
        return carried_out(Work("all_reduce", found, start, end, result=[tensor]), async_op)


def reduce(
    tensor: Any, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Combine the tensors of all ranks, for one rank."""
    one_tensor(tensor, "tensor")
    if left_out(group, "reduce"):
        return None
    found = resolved(group)
    root = root_of(found, dst, group_dst, None)
    elements = flat(tensor).copy()
    start, finish = reduction(found, elements, op, "reduce")

    def end() -> None:
        finish()
        if found.rank() == root:
            put(tensor, elements)
            wrote(tensor)

    with told("reduce", found, tensor, goes_on=async_op):
        return carried_out(Work("reduce", found, start, end, result=[tensor]), async_op)


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy the tensor of one rank to all others."""
    one_tensor(tensor, "tensor")
    if left_out(group, "broadcast"):
        return None
    found = resolved(group)
    root = root_of(found, src, group_src, None)
    elements = flat(tensor)

    def end() -> None:
        put(tensor, elements)
        wrote(tensor)

    with told("broadcast", found, tensor, goes_on=async_op):
        work = Work(
            "broadcast", found, lambda: found.transport.broadcast(elements, root), end,
            result=[tensor],
        )  # fmt: skip
        return carried_out(work, async_op)


def all_gather(
    tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy the tensors of all ranks into a list of tensors."""
    several_tensors(tensor_list, "tensor_list")
    one_tensor(tensor, "tensor")
    if left_out(group, "all_gather"):
        return None
    found = resolved(group)
    _long_enough(tensor_list, found, "allgather")
    checks.sizes(tensor_list, tensor, "allgather")
    mine = flat(tensor)
    everybodys = np.empty((found.size(), mine.size), mine.dtype)

    def end() -> None:
        for each, part in zip(tensor_list, everybodys, strict=True):
            put(each, part)
        wrote(*tensor_list)

    with told("all_gather", found, tensor, goes_on=async_op):
        work = Work(
            "all_gather", found,
            lambda: found.transport.all_gather(mine, everybodys.reshape(-1)), end,
            result=[*tensor_list],
        )  # fmt: skip
        return carried_out(work, async_op)


def _long_enough(tensors: list[Any], group: ProcessGroup, name: str) -> None:
    if len(tensors) != group.size():
        raise RuntimeError(
            f"ProcessGroupGloo::{name}: invalid output tensor list at index 0 (expected length "
            f"{group.size()}, got {len(tensors)})"
        )


def gather(
    tensor: Any, gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy the tensors of all ranks into a list of one rank."""
    one_tensor(tensor, "tensor")
    if left_out(group, "gather"):
        return None
    found = resolved(group)
    root = root_of(found, dst, group_dst, 0)
    is_root = found.rank() == root
    if is_root and not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not is_root and gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    into = gather_list or []
    if is_root:
        _long_enough(into, found, "gather")
        checks.sizes(into, tensor, "gather")
    mine = flat(tensor)
    everybodys = np.empty((found.size(), mine.size), mine.dtype) if is_root else None

    def end() -> None:
        for each, part in zip(into, [] if everybodys is None else everybodys, strict=True):
            put(each, part)
        wrote(*into)

    def start() -> list[Any]:
        all_ = None if everybodys is None else everybodys.reshape(-1)
        return found.transport.gather(mine, all_, root)

    with told("gather", found, tensor, goes_on=async_op):
        return carried_out(Work("gather", found, start, end, result=[*into]), async_op)


def scatter(
    tensor: Any, scatter_list: list[Any] | None = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy each tensor of a list of one rank to another rank."""
    one_tensor(tensor, "tensor")
    if left_out(group, "scatter"):
        return None
    found = resolved(group)
    root = root_of(found, src, group_src, 0)
    is_root = found.rank() == root
    if is_root and not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    if not is_root and scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    parts = None
    if is_root and scatter_list:
        if len(scatter_list) != found.size():
            raise RuntimeError(
                "ProcessGroupGloo::scatter: Incorrect input list size "
                f"{len(scatter_list)}. Input list size should be {found.size()}, same as size of "
                "the process group."
            )
        checks.sizes(scatter_list, tensor, "scatter")
        parts = np.concatenate([flat(each) for each in scatter_list])
    mine = flat(tensor)

    def end() -> None:
        put(tensor, mine)
        wrote(tensor)

    with told("scatter", found, tensor, goes_on=async_op):
        work = Work(
            "scatter", found, lambda: found.transport.scatter(mine, parts, root), end,
            result=[tensor],
        )  # fmt: skip
        return carried_out(work, async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all ranks of the group are here."""
    if left_out(group, "barrier"):
        return None
    found = resolved(group)
    with told("barrier", found, goes_on=async_op):
        return carried_out(Work("barrier", found, found.transport.barrier), async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """The same, with its own limit of time."""
    if left_out(group, "monitored_barrier"):
        return
    found = resolved(group)
    with told("monitored_barrier", found):
        work = Work("monitored_barrier", found, found.transport.barrier)
        if timeout is not None:
            work.timeout = timeout.total_seconds()
        progress.run(work)
