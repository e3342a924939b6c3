"""Process groups: which ranks exchange tensors with each other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from gradscope.runtime.distributed.errors import not_initialized
from gradscope.runtime.distributed.exchange.progress import progress
from gradscope.runtime.distributed.exchange.transport import Transport

default_pg_timeout = timedelta(minutes=30)


class ProcessGroup:
    """Ranks that call collectives together."""

    __module__ = "torch.distributed.distributed_c10d"

    def __init__(
        self,
        transport: Transport,
        members: tuple[int, ...],
        name: str,
        described: str,
        backend: str,
        timeout: timedelta,
    ) -> None:
        self.transport = transport
        self.members = members  # by their ranks in the whole program
        self.group_name, self.group_desc = name, described
        self.backend, self.timeout = backend, timeout
        self._calls = 0

    def rank(self) -> int:
        """The rank of this process in the group."""
        return self.transport.rank

    def size(self) -> int:
        return self.transport.size

    def name(self) -> str:
        """The name of the backend."""
        return self.backend

    def count(self) -> int:
        """Count a call of a collective. Returns its number, from 1."""
        self._calls += 1
        if progress.farewells is not None:
            progress.farewells.counts[self.group_name] = self._calls
        return self._calls


class _World(type):
    """`group.WORLD` is the default group; None before there is one."""

    default: ProcessGroup | None = None

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _World.default

    @WORLD.setter
    def WORLD(cls, group: ProcessGroup | None) -> None:
        _World.default = group


class group(metaclass=_World):  # noqa: N801  (PyTorch's name)
    """Holds the default group, as `WORLD`."""

    NON_GROUP_MEMBER: ClassVar[int] = -100


class GroupMember(metaclass=_World):
    """Holds the same, and what `new_group` returns to ranks that are not in it."""

    NON_GROUP_MEMBER: ClassVar[int] = -100


made: dict[str, ProcessGroup] = {}
"""The groups of this process, by name."""


def is_initialized() -> bool:
    """Whether there is a default process group."""
    return _World.default is not None


def default_group() -> ProcessGroup:
    """The default group; PyTorch's error if there is none."""
    if _World.default is None:
        raise not_initialized()
    return _World.default


def is_outside(group: Any) -> bool:
    """Whether this process is not in the group."""
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def resolved(group: Any) -> ProcessGroup:
    """The group that is meant by an argument; None is the default one."""
    if group is None:
        return default_group()
    if isinstance(group, ProcessGroup):
        if group.group_name not in made:
            raise ValueError(
                "Group " + repr(group) + " is not registered, please create group with "
                "torch.distributed.new_group API"
            )
        return group
    raise TypeError(f"group must be a ProcessGroup, not {type(group).__name__}")


def get_rank(group: ProcessGroup | None = None) -> int:
    """The rank of this process in a group; -1 if it is not in it."""
    if is_outside(group):
        return -1
    return resolved(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of ranks of a group; -1 if this process is not in it."""
    if is_outside(group):
        return -1
    return resolved(group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name of a group's backend, as it was asked for."""
    if is_outside(group):
        raise ValueError("Invalid process group specified")
    return Backend(resolved(group).backend)


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The ranks of a group, by their numbers in the whole program."""
    return [*resolved(group).members]


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number in the whole program of a rank of a group."""
    found = resolved(group)
    if not 0 <= group_rank < len(found.members):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return found.members[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in a group of a rank of the whole program."""
    found = resolved(group)
    if global_rank not in found.members:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return found.members.index(global_rank)


def get_pg_count() -> int:
    """The number of groups."""
    return len(made)


def root_of(
    group: ProcessGroup, everywhere: int | None, inside: int | None, default: int | None
) -> int:
    """The rank in the group of `src` or `group_src`, or of `dst` or `group_dst`."""
    if everywhere is not None and inside is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    if inside is not None:
        if not 0 <= inside < group.size():
            raise ValueError(f"Group rank {inside} is not part of group {group}")
        return inside
    if everywhere is None:
        everywhere = default
    if everywhere is None:
        raise ValueError("Must specify global_rank or group_rank")
    return get_group_rank(group, everywhere)


class Backend(str):
    """The name of a backend, in lower case."""

    __slots__ = ()
    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = (
        "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake",
    )  # fmt: skip
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())
