"""The rank of this process in a distributed program, as set by torchrun, mpiexec and others.

`torchrun --max-restarts` starts all ranks again when one fails. Each attempt has files of its own.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from gradscope.errors import UsageError
from gradscope.trace.text import quoted, quoted_path

VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("PMI_RANK", "PMI_SIZE"),  # mpiexec of MPICH
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # and of Open MPI
)
"""The environment variables in which launchers say which rank a process is, and of how many."""

NUMBER = re.compile(r"[0-9]{1,9}")
ENDINGS = re.compile(r"(\.json)?(\.gz|\.zst)?$")


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank `number` of this process among `size` processes, from 0."""

    number: int
    size: int
    restarts: int = 0  # how often the launcher has started all ranks again

    @property
    def is_one_of_several(self) -> bool:
        return self.size > 1

    def facts(self) -> dict[str, int]:
        """Facts for the trace; none if there are no ranks."""
        facts = {"restarts": self.restarts} if self.restarts else {}
        if not self.is_one_of_several:
            return facts
        return {"rank": self.number, "world_size": self.size, **facts}

    def file(self, path: Path) -> Path:
        """The path to which this process writes instead of `path`: `trace.rank2.json`.

        After a restart `trace.restart1.rank2.json`, so that `trace.rank*.json` are those of one
        attempt.
        """
        ending = ENDINGS.search(path.name)
        assert ending is not None  # it may be empty
        end = ending[0]
        restart = f".restart{self.restarts}" if self.restarts else ""
        rank = f".rank{self.number}" if self.is_one_of_several else ""
        return path.with_name(f"{path.name.removesuffix(end)}{restart}{rank}{end}")

    def said(self, path: Path) -> str:
        """The message to print after a restart, or ""."""
        if not self.restarts:
            return ""
        return (
            f"restart {self.restarts} of the program: writing {quoted_path(self.file(path))}; "
            "earlier attempts keep their files"
        )


def this_process() -> Rank:
    """The rank that torchrun, or mpiexec, gave; a single process if there is none."""
    restarts = _number("TORCHELASTIC_RESTART_COUNT") or 0
    for names in VARIABLES:
        rank, size = map(_number, names)
        if rank is not None and size is not None and rank < size:
            return Rank(rank, size, restarts)
    return Rank(0, 1, restarts)


def _number(variable: str) -> int | None:
    """The number in an environment variable; None: there is none."""
    text = os.environ.get(variable, "")
    return int(text) if NUMBER.fullmatch(text) else None


def wanted(text: str | None) -> frozenset[int] | None:
    """The ranks of `--ranks 0,2`; None: all."""
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        raise UsageError(f"--ranks expects numbers, such as 0,2, not {quoted(text)}")
    return frozenset(map(int, text.split(",")))
