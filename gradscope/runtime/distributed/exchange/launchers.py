"""The environment variables by which launchers number the processes of a program."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

OF_MPI = (
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),  # MPICH
    (
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),  # Open MPI
)  # fmt: skip
OF_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


class PlaceInProgram(NamedTuple):
    """The number of a process, and how many there are: in the program, and on this machine."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1


ALONE = PlaceInProgram()


def started_by_mpi() -> PlaceInProgram | None:
    """The place that mpiexec gave to this process; None: it was started otherwise."""
    return next((found for names in OF_MPI if (found := _named(names))), None)


def started_by_torchrun() -> PlaceInProgram | None:
    """The place that torchrun, or a similar launcher, gave to this process."""
    return _named(OF_TORCHRUN)


def _named(names: tuple[str, ...]) -> PlaceInProgram | None:
    """The place in these variables; None if the first two are not valid numbers."""
    rank, size, local_rank, local_size = (_number(os.environ.get(name, "")) for name in names)
    if rank is None or size is None or rank >= size:
        return None
    return PlaceInProgram(
        rank,
        size,
        rank if local_rank is None else local_rank,
        size if local_size is None else local_size,
    )


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
