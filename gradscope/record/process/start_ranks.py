"""`gradscope trace --ranks-here N`: starts a program as N ranks on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from gradscope.errors import UsageError

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""The environment variables that torchrun sets."""

POLL, GRACE = 0.05, 10.0
"""Seconds between two looks at the ranks, and until others end when one has failed."""

OVERSUBSCRIBES = "PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"
"""Lets Open MPI start more ranks than there are cores, as MPICH does."""


def by_mpiexec(count: int) -> NoReturn:
    """Replace this process by mpiexec, which runs its command line as ranks."""
    mpiexec = _mpiexec()
    if find_spec("mpi4py") is None or mpiexec is None:
        raise UsageError(
            "--ranks-here connects the processes of gradscope's own engine by MPI, which needs "
            "mpi4py and mpiexec: pip install 'gradscope-trace[mpi]'"
        )
    os.environ.setdefault(*OVERSUBSCRIBES)
    _flush()
    os.execv(mpiexec, [mpiexec, "-n", str(count), *_command()])  # noqa: S606


def like_torchrun(count: int) -> int:
    """Run this command line as ranks of PyTorch. Returns the exit code of the first that failed."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    _flush()
    ranks = []
    for rank in range(count):
        place = dict(zip(VARIABLES, map(str, (rank, count, rank, count)), strict=True))
        environment = {"OMP_NUM_THREADS": "1", **os.environ, **shared, **place}
        ranks.append(subprocess.Popen(_command(), env=environment))  # noqa: S603
    return _first_failure(ranks)


def _first_failure(ranks: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all. When one has failed, others get some time to end, and are then stopped."""
    failed, since = 0, 0.0
    while any(rank.poll() is None for rank in ranks):
        with suppress(KeyboardInterrupt):  # ranks have received it, too
            time.sleep(POLL)
        codes = [code for rank in ranks if (code := rank.poll())]
        if codes and not failed:
            failed, since = codes[0], time.monotonic()
        if failed and time.monotonic() - since > GRACE:
            for rank in ranks:
                rank.terminate()
            since = time.monotonic()
    failed = failed or next((code for rank in ranks if (code := rank.returncode)), 0)
    return 128 - failed if failed < 0 else failed


def _command() -> list[str]:
    """The command line of this process. Ranks ignore --ranks-here."""
    return [sys.executable, *sys.orig_argv[1:]]


def _mpiexec() -> str | None:
    """That of this Python's environment, or that of the system."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def _free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
