"""The rank of this process in a distributed program, as set by torchrun, mpiexec and others."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from gradscope.errors import UsageError
from gradscope.trace.text import quoted

VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("PMI_RANK", "PMI_SIZE"),  # mpiexec of MPICH
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # and of Open MPI
)
"""The environment variables in which launchers say which rank a process is, and of how many."""

NUMBER = re.compile(r"\d{1,9}", re.ASCII)
ENDINGS = re.compile(r"(\.json)?(\.gz|\.zst)?$")


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank `number` of this process among `size` processes, from 0."""

    number: int
    size: int

    @property
    def is_one_of_several(self) -> bool:
        return self.size > 1

    def facts(self) -> dict[str, int]:
        """Facts for the trace; none if there are no ranks."""
        if not self.is_one_of_several:
            return {}
        return {"rank": self.number, "world_size": self.size}

    def file(self, path: Path) -> Path:
        """The path to which this process writes instead of `path`: `trace.rank2.json`."""
        if not self.is_one_of_several:
            return path
        ending = ENDINGS.search(path.name)
        assert ending is not None  # it may be empty
        end = ending[0]
        return path.with_name(f"{path.name.removesuffix(end)}.rank{self.number}{end}")


def this_process() -> Rank:
    """The rank that torchrun, or mpiexec, gave; a single process if there is none."""
    for names in VARIABLES:
        rank, size = (os.environ.get(name, "") for name in names)
        if NUMBER.fullmatch(rank) and NUMBER.fullmatch(size) and int(rank) < int(size):
            return Rank(int(rank), int(size))
    return Rank(0, 1)


def wanted(text: str | None) -> frozenset[int] | None:
    """The ranks of `--ranks 0,2`; None: all."""
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        raise UsageError(f"--ranks expects numbers, such as 0,2, not {quoted(text)}")
    return frozenset(map(int, text.split(",")))
