"""Collectives of Python objects, which are pickled."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.runtime.distributed.calls.checks import left_out
from gradscope.runtime.distributed.calls.telling import told
from gradscope.runtime.distributed.exchange.progress import progress
from gradscope.runtime.distributed.exchange.work import Work
from gradscope.runtime.distributed.groups import ProcessGroup, resolved, root_of

Array = np.ndarray[Any, Any]


def pickled(value: Any) -> Array:
    """The bytes of an object."""
    return np.frombuffer(pickle.dumps(value), np.uint8)


def unpickled(data: Array) -> Any:
    """The object of these bytes, which came from another rank of this program."""
    return pickle.loads(data.tobytes())  # noqa: S301


def empty(size: int, dtype: str = "u1") -> Array:
    return np.empty(size, dtype)


def counted(data: Sequence[Array]) -> Array:
    """The sizes of several arrays."""
    return np.array([each.size for each in data], np.int64)


def everybodys(group: ProcessGroup, name: str, value: Any) -> list[Any]:
    """The objects of all ranks."""
    mine = pickled(value)
    sizes = np.empty(group.size(), np.int64)
    progress.run(Work(name, group, lambda: group.transport.all_gather(counted([mine]), sizes)))
    largest = int(sizes.max())
    padded, all_ = np.zeros(largest, np.uint8), np.empty((group.size(), largest), np.uint8)
    padded[: mine.size] = mine
    progress.run(Work(name, group, lambda: group.transport.all_gather(padded, all_.reshape(-1))))
    return [unpickled(row[:size]) for row, size in zip(all_, sizes.tolist(), strict=True)]


def _of_root(group: ProcessGroup, name: str, values: Sequence[Any] | None, root: int) -> list[Any]:
    """The objects of one rank."""
    data = [] if values is None else [pickled(each) for each in values]
    sizes = np.array([len(data), sum(each.size for each in data)], np.int64)
    progress.run(Work(name, group, lambda: group.transport.broadcast(sizes, root)))
    many, total = sizes.tolist()
    lengths = counted(data) if group.rank() == root else np.empty(many, np.int64)
    progress.run(Work(name, group, lambda: group.transport.broadcast(lengths, root)))
    together = np.concatenate(data) if data and group.rank() == root else np.empty(total, np.uint8)
    progress.run(Work(name, group, lambda: group.transport.broadcast(together, root)))
    ends = np.cumsum(lengths)[:-1]
    return [unpickled(part) for part in np.split(together, ends)] if many else []


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Copy the objects of all ranks into a list."""
    if left_out(group, "all_gather_object"):
        return
    found = resolved(group)
    with told("all_gather_object", found):
        for at, each in enumerate(everybodys(found, "all_gather_object", obj)):
            object_list[at] = each


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """Copy the objects of all ranks into a list of one rank."""
    if left_out(group, "gather_object"):
        return
    found = resolved(group)
    is_root = found.rank() == root_of(found, dst, group_dst, 0)
    if is_root and not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    with told("gather_object", found):
        every = everybodys(found, "gather_object", obj)
        for at, each in enumerate(every if is_root and object_gather_list else ()):
            object_gather_list[at] = each  # type: ignore[index]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Copy the objects of one rank to all others."""
    if left_out(group, "broadcast_object_list"):
        return
    found = resolved(group)
    root = root_of(found, src, group_src, 0)
    with told("broadcast_object_list", found):
        given = object_list if found.rank() == root else None
        for at, each in enumerate(_of_root(found, "broadcast_object_list", given, root)):
            object_list[at] = each


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Copy each object of a list of one rank to another rank."""
    if left_out(group, "scatter_object_list"):
        return
    found = resolved(group)
    if not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    root = root_of(found, src, group_src, 0)
    with told("scatter_object_list", found):
        given = scatter_object_input_list if found.rank() == root else None
        every = _of_root(found, "scatter_object_list", given, root)
        scatter_object_output_list[0] = every[found.rank()]
