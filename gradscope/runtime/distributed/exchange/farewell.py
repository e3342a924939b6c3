"""What ranks tell each other when they end, so that nobody waits for a rank that is gone.

# Note [How a rank ends]
mpiexec kills all ranks as soon as one ends without MPI_Finalize, or by os._exit; and MPI_Finalize
waits for all ranks. So a rank that ends, for whatever reason, first sends each other rank how many
collectives of each group it has called. A rank that waits in a later one raises an error, and ends,
too. When all have ended, each leaves MPI. `destroy_process_group` does not: MPI starts only once.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

from gradscope.runtime.distributed.errors import DistBackendError
from gradscope.runtime.distributed.exchange.progress import PAUSES, in_mpi, progress
from gradscope.runtime.distributed.exchange.work import ONE_BY_ONE

if TYPE_CHECKING:
    from gradscope.runtime.distributed.exchange.work import Work

LAST_MESSAGES = 1.0
"""Seconds in which messages of a rank that has ended may still arrive."""


class Farewells:
    """Those that were received. `comm` is used for nothing else."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._mpi, self._comm, self._process = MPI, comm, os.getpid()
        self.counts: dict[str, int] = {}  # calls of this rank, by group
        self._left: dict[int, tuple[dict[str, int], float]] = {}

    def look(self) -> None:
        """Receive what has arrived. The caller holds `in_mpi`."""
        message = self._comm.improbe(self._mpi.ANY_SOURCE, self._mpi.ANY_TAG)
        while message is not None:
            status = self._mpi.Status()
            counts = message.recv(status)
            self._left[status.Get_source()] = counts, time.monotonic()
            message = self._comm.improbe(self._mpi.ANY_SOURCE, self._mpi.ANY_TAG)

    def refuse(self, work: Work) -> None:
        """Raise if an exchange will never end, because a rank that it needs has ended."""
        for rank in work.group.members if self._left else ():
            counts, since = self._left.get(rank, (None, 0.0))
            if counts is None:
                continue
            late = time.monotonic() - since > LAST_MESSAGES
            if work.name in ONE_BY_ONE:
                missing = late and work.peer == rank
            else:
                missing = counts.get(work.group.group_name, 0) < work.number
            if missing:
                raise DistBackendError(
                    f"rank {rank} has ended, and will not take part in {work.in_words()}"
                )

    def leave(self) -> None:
        """Say farewell, wait for that of all others, and leave MPI. Does nothing a second time."""
        if self._process != os.getpid() or self._mpi.Is_finalized():  # a fork is no rank
            return
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # closed, or replaced
                stream.flush()
        others = [rank for rank in range(self._comm.size) if rank != self._comm.rank]
        with in_mpi:
            sent = [self._comm.isend(self.counts, rank) for rank in others]
        pause = PAUSES[0]
        while True:
            with in_mpi:
                self.look()
                sent = [request for request in sent if not request.Test()]
            if not sent and len(self._left) == len(others):
                break
            time.sleep(pause)
            pause = min(2 * pause, PAUSES[1])
        if not progress.unfinished:
            self._mpi.Finalize()


def leave_at_the_end() -> None:
    """Let this process leave MPI when it ends, also by `os._exit`."""
    own = os._exit

    @wraps(own)
    def ends(status: int) -> None:
        _leave()
        own(status)

    os._exit = ends  # type: ignore[assignment]
    atexit.register(_leave)


def _leave() -> None:
    if progress.farewells is not None:
        progress.farewells.leave()
