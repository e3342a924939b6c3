"""How arrays get from rank to rank: through MPI, or not at all in a world of one process.

Each method begins an exchange of flat arrays and returns MPI's requests, which complete later.
Arrays are those of the caller until then. Ranks are those of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gradscope.runtime.distributed.reduce_op import RedOpType

Array = np.ndarray[Any, Any]
Requests = list[Any]

ANY = -1
"""A message may come from any rank."""

REDUCED_BY_MPI = frozenset("bhilqBHILQfdFD")
"""NumPy's codes of dtypes that MPI reduces. Others are gathered, and combined by each rank."""


class Transport(Protocol):
    """Exchanges arrays among the ranks of one group."""

    rank: int
    size: int

    def all_reduce(self, flat: Array, op: RedOpType) -> Requests: ...
    def broadcast(self, flat: Array, root: int) -> Requests: ...
    def all_gather(self, mine: Array, everybodys: Array) -> Requests: ...
    def all_to_all(
        self, mine: Array, theirs: Array, out_of: Sequence[int], into: Sequence[int]
    ) -> Requests: ...
    def gather(self, mine: Array, everybodys: Array | None, root: int) -> Requests: ...
    def scatter(self, mine: Array, everybodys: Array | None, root: int) -> Requests: ...
    def barrier(self) -> Requests: ...
    def send(self, flat: Array, to: int, tag: int) -> Requests: ...
    def receive(self, flat: Array, source: int, tag: int) -> Requests: ...


class Alone:
    """The only rank of its group: what it sends, it receives."""

    rank, size = 0, 1

    def all_reduce(self, flat: Array, op: RedOpType) -> Requests:
        return []

    def broadcast(self, flat: Array, root: int) -> Requests:
        return []

    def all_gather(self, mine: Array, everybodys: Array) -> Requests:
        everybodys[...] = mine
        return []

    def all_to_all(
        self, mine: Array, theirs: Array, out_of: Sequence[int], into: Sequence[int]
    ) -> Requests:
        theirs[...] = mine
        return []

    def gather(self, mine: Array, everybodys: Array | None, root: int) -> Requests:
        if everybodys is not None:
            everybodys[...] = mine
        return []

    def scatter(self, mine: Array, everybodys: Array | None, root: int) -> Requests:
        if everybodys is not None:
            mine[...] = everybodys
        return []

    def barrier(self) -> Requests:
        return []

    def send(self, flat: Array, to: int, tag: int) -> Requests:
        raise AssertionError("a rank does not send to itself")

    receive = send


class OverMpi:
    """The ranks of a communicator of mpi4py."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._in_place, self._any_source = MPI.IN_PLACE, MPI.ANY_SOURCE
        self._ops = {
            RedOpType.SUM: MPI.SUM, RedOpType.PRODUCT: MPI.PROD, RedOpType.MIN: MPI.MIN,
            RedOpType.MAX: MPI.MAX, RedOpType.BAND: MPI.BAND, RedOpType.BOR: MPI.BOR,
            RedOpType.BXOR: MPI.BXOR,
        }  # fmt: skip

    def all_reduce(self, flat: Array, op: RedOpType) -> Requests:
        return [self.comm.Iallreduce(self._in_place, flat, self._ops[op])]

    def broadcast(self, flat: Array, root: int) -> Requests:
        return [self.comm.Ibcast(_bytes(flat), root)]

    def all_gather(self, mine: Array, everybodys: Array) -> Requests:
        return [self.comm.Iallgather(_bytes(mine), _bytes(everybodys))]

    def all_to_all(
        self, mine: Array, theirs: Array, out_of: Sequence[int], into: Sequence[int]
    ) -> Requests:
        size = mine.itemsize
        sent, received = ([each * size for each in counts] for counts in (out_of, into))
        return [self.comm.Ialltoallv([_bytes(mine), sent], [_bytes(theirs), received])]

    def gather(self, mine: Array, everybodys: Array | None, root: int) -> Requests:
        into = None if everybodys is None else _bytes(everybodys)
        return [self.comm.Igather(_bytes(mine), into, root)]

    def scatter(self, mine: Array, everybodys: Array | None, root: int) -> Requests:
        out_of = None if everybodys is None else _bytes(everybodys)
        return [self.comm.Iscatter(out_of, _bytes(mine), root)]

    def barrier(self) -> Requests:
        return [self.comm.Ibarrier()]

    def send(self, flat: Array, to: int, tag: int) -> Requests:
        return [self.comm.Isend(_bytes(flat), to, tag)]

    def receive(self, flat: Array, source: int, tag: int) -> Requests:
        if source != ANY:
            return [self.comm.Irecv(_bytes(flat), source, tag)]
        return [_FromAny(self.comm.Irecv(_bytes(flat), self._any_source, tag))]


class _FromAny:
    """A request to receive a message of any rank."""

    source: int | None = None

    def __init__(self, request: Any) -> None:
        from mpi4py import MPI

        self._request, self._status = request, MPI.Status()

    def Test(self) -> bool:
        """Whether a message has arrived: then its source is known."""
        if self.source is None and self._request.Test(self._status):
            self.source = self._status.Get_source()
        return self.source is not None


def _bytes(flat: Array) -> Array:
    return flat.view(np.uint8)


def gathered_and_combined(
    transport: Transport, flat: Array, op: RedOpType
) -> tuple[Requests, Array]:
    """Begin to gather what MPI cannot reduce. `combine` reduces the array, when it is complete."""
    everybodys = np.empty((transport.size, flat.size), flat.dtype)
    return transport.all_gather(flat, everybodys.reshape(-1)), everybodys


def is_reduced_by_mpi(flat: Array) -> bool:
    return flat.dtype.char in REDUCED_BY_MPI
