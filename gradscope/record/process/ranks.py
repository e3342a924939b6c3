"""The rank of this process in a distributed program, as set by torchrun, mpiexec and others.

`torchrun --max-restarts` starts all ranks again when one fails. Each attempt has files of its own.

# Note [Attempts without a number]
torchrun also starts all ranks again when a node joins or leaves, and does not count that: its
TORCHELASTIC_RESTART_COUNT stays the same. Then a rank finds a trace of its own that is younger than
the agent which started it. This is an earlier attempt, unless a process is still writing it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from gradscope.errors import UsageError
from gradscope.trace.file.opening import is_being_written
from gradscope.trace.text import quoted, quoted_path

VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("PMI_RANK", "PMI_SIZE"),  # mpiexec of MPICH
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # and of Open MPI
)
"""The environment variables in which launchers say which rank a process is, and of how many."""

OF_TORCHRUN, COUNT = "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"
YOUNGER = 2.0
"""Seconds by which a trace is younger than an agent that has started its writer, at least."""

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
    restarts = max([_number(COUNT) or 0, *_written.values()])
    if _joined:
        return replace(_joined[-1], restarts=restarts)
    for names in VARIABLES:
        rank, size = map(_number, names)
        if rank is not None and size is not None and rank < size:
            return Rank(rank, size, restarts)
    return Rank(0, 1, restarts)


def is_rank(rank: Rank) -> None:
    """Set the rank of this process, which a process group gave and no launcher."""
    _joined.append(rank)


_joined: list[Rank] = []
"""The rank that `is_rank` has set."""

_written: dict[Path, int] = {}
"""The files that this process writes, with the number of restarts that `writing_to` found."""


def writing_to(path: Path) -> Rank:
    """The same, before this process writes its trace: an earlier attempt keeps its file.

    See Note [Attempts without a number].
    """
    rank = this_process()
    since = _started(os.getppid()) if OF_TORCHRUN in os.environ else None
    while since is not None and _is_earlier(rank.file(path), since):
        rank = replace(rank, restarts=rank.restarts + 1)
    _written[rank.file(path).absolute()] = rank.restarts
    return rank


def _is_earlier(path: Path, since: float) -> bool:
    """Whether another process has written a file after this time, and none writes it now."""
    if path.absolute() in _written:
        return False
    try:
        return path.stat().st_mtime > since + YOUNGER and not is_being_written(path)
    except OSError:
        return False


def _started(process: int) -> float | None:
    """When a process started, in seconds since the epoch; None: the system does not tell."""
    try:
        ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
        [boot] = re.findall(r"^btime (\d+)$", Path("/proc/stat").read_text(), re.MULTILINE)
        return int(boot) + int(ticks) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


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
