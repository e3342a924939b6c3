"""Starting and ending: the default group, and groups of some of its ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

from gradscope.runtime.distributed import groups
from gradscope.runtime.distributed.calls.telling import told
from gradscope.runtime.distributed.errors import (
    no_backend,
    no_mpi4py,
    not_available,
    not_by_mpiexec,
    unknown_backend,
)
from gradscope.runtime.distributed.exchange.farewell import Farewells, leave_at_the_end
from gradscope.runtime.distributed.exchange.launchers import (
    ALONE,
    OF_TORCHRUN,
    started_by_mpi,
    started_by_torchrun,
)
from gradscope.runtime.distributed.exchange.progress import in_mpi, progress
from gradscope.runtime.distributed.exchange.transport import Alone, OverMpi, Transport
from gradscope.runtime.distributed.exchange.work import Work
from gradscope.runtime.distributed.groups import (
    Backend,
    GroupMember,
    ProcessGroup,
    default_group,
    default_pg_timeout,
    get_rank,
    is_outside,
    resolved,
)

SERVED = (Backend.GLOO, Backend.MPI)
"""Names of backends that are accepted. MPI carries out both."""

WORLD_NAME = "0"


def join_ranks() -> None:
    """If mpiexec started this process: set torchrun's variables, and end when all ranks do."""
    place = started_by_mpi()
    if place is not None:
        leave_at_the_end()
        for name, number in zip(OF_TORCHRUN, place, strict=True):
            os.environ.setdefault(name, str(number))
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29500")


def is_mpi_available() -> bool:
    """Whether processes can be connected."""
    return find_spec("mpi4py") is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: Sequence[int] | None = None,
) -> None:
    """Create the default group: all ranks that mpiexec started, or this process alone."""
    if groups.is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    name = _backend(backend)
    transport = _connected(world_size, rank)
    ranks = tuple(range(transport.size))
    groups.made.clear()
    world = ProcessGroup(
        transport, ranks, WORLD_NAME, "default_pg", name, timeout or default_pg_timeout
    )
    groups.made[WORLD_NAME] = GroupMember.WORLD = world
    _Made.number = 0


class _Made:
    """How many groups were created, which names them."""

    number = 0


def _backend(asked: str | None) -> str:
    """The backend of the CPU in "gloo", "cpu:gloo,cuda:nccl" or None."""
    if asked is None:
        return Backend.GLOO
    parts = [part.partition(":")[::2] for part in str(asked).lower().split(",")]
    by_device = {device: name for device, name in parts if name}
    name = by_device.get("cpu", parts[0][0] if not by_device else "")
    if name in SERVED:
        return name
    if not name or name in Backend.backend_list:
        raise no_backend(name or str(asked))
    raise unknown_backend(name)


def _connected(world_size: int, rank: int) -> Transport:
    """The ranks of the whole program. The place that mpiexec gave is what counts."""
    place = started_by_mpi()
    if place is None:
        named = started_by_torchrun() or ALONE
        size = world_size if world_size > 0 else named.size
        if size > 1:
            raise not_by_mpiexec(size) if is_mpi_available() else no_mpi4py(size)
        return Alone()
    if not is_mpi_available():
        if place.size > 1:
            raise no_mpi4py(place.size)
        return Alone()
    for name, asked, meant in (("world_size", world_size, place.size), ("rank", rank, place.rank)):
        if asked >= 0 and asked != meant:
            raise ValueError(f"{name} is {asked}, but mpiexec started this process with {meant}")
    return OverMpi(_world()) if place.size > 1 else Alone()


def _world() -> Any:
    """MPI's communicator of all ranks."""
    import mpi4py

    mpi4py.rc.finalize = False  # Note [How a rank ends] in farewell.py
    from mpi4py import MPI

    if progress.farewells is None:
        progress.farewells = Farewells(MPI.COMM_WORLD.Dup())
    return MPI.COMM_WORLD.Dup()


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Remove a group, or all groups."""
    if is_outside(group):
        return
    if group is None and not groups.is_initialized():
        raise AssertionError("Process group cannot be None")
    found = resolved(group)
    progress.settle()
    if found is not GroupMember.WORLD:
        del groups.made[found.group_name]
        return
    groups.made.clear()
    GroupMember.WORLD = None


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some ranks. All ranks of the program call this, in the same order."""
    world = default_group()
    members = tuple(range(world.size())) if ranks is None else tuple(sorted(ranks))
    if len(set(members)) != len(members):
        raise ValueError(f"ranks list must not contain duplicate entries, got {[*members]}")
    for rank in members:
        if not 0 <= rank < world.size():
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {world.size() - 1} "
                f"(world_size={world.size()})"
            )
    _Made.number += 1
    name = str(_Made.number)
    served = world.backend if backend is None else _backend(backend)
    if not use_local_synchronization:
        with told("new_group", world, makes=members):
            progress.run(Work("new_group", world, world.transport.barrier))
    if get_rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    limit = timeout or world.timeout
    transport = _part(world.transport, members)
    made = ProcessGroup(transport, members, name, group_desc or "undefined", served, limit)
    groups.made[name] = made
    return made


def _part(world: Transport, members: tuple[int, ...]) -> Transport:
    if len(members) == 1 or not isinstance(world, OverMpi):
        return Alone()
    with in_mpi:
        chosen = world.comm.Get_group().Incl([*members])
        return OverMpi(world.comm.Create_group(chosen))


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` neighbors. Returns that of this rank, and all of them."""
    size = default_group().size()
    if group_size is None:
        raise ValueError("gradscope's runtime has no devices to count: pass group_size")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
        )
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    each = [[*range(first, first + group_size)] for first in range(0, size, group_size)]
    return new_subgroups_by_enumeration(each, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of these ranks. Returns that of this rank, and all of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    mine, every = None, []
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        every.append(made)
        if get_rank() in ranks:
            mine = made
    return mine, every


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine."""
    place = started_by_mpi() or started_by_torchrun()
    if place is not None:
        return place.local_rank
    if fallback_rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
            "`get_node_local_rank` to work, assuming you are not running in a multi-device "
            "context and want the code to run locally instead."
        )
    return int(fallback_rank)


def refused(what: str) -> Any:
    """A function that says that this is not available."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise not_available(f"torch.distributed.{what}", "it has data parallel training")

    return refuse
