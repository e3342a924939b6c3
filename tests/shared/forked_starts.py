"""Starts of `gradscope` that cost a tenth: a process that has imported it forks for each of them.

Half a second of every start goes into importing. What comes after is the same: the process has its
own folder, environment, standard streams, group and exit status, and nothing of another run; a test
holds it against a real start (tests/tooling/test_forked_starts.py). What the interpreter reads when
it starts cannot be changed any more: with other such settings the start is a real one, and so it is
where forking is not what it is on Linux.
"""

from __future__ import annotations

import array
import marshal
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

GRADSCOPE = str(Path(sys.executable).with_name("gradscope"))
SOURCES = str(Path(__file__).parents[2])
SERVER = str(Path(__file__).with_name("fork_server.py"))
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC", "OMP", "OPENBLAS", "NUMBA", "TZ")
"""How the names of environment variables begin that are read when Python or a library starts."""


def as_tests_start(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of what tests start: it finds gradscope in the checkout."""
    return {**environment, "PYTHONPATH": SOURCES}


class Server:
    """The process that forks, with the environment it was started in, and what it has imported."""

    def __init__(self, engine: str) -> None:
        environment = as_tests_start(os.environ)
        self.settings = settings(environment)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        os.set_inheritable(theirs.fileno(), True)
        pipes = [os.pipe() for _ in range(3)]  # its streams are pipes, as those of its runs
        ends = (pipes[0][0], pipes[1][1], pipes[2][1])
        # No Popen: that would end with the test.
        self.process = os.posix_spawn(
            sys.executable,
            [sys.executable, SERVER, GRADSCOPE, str(theirs.fileno()), engine],
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, end, nr) for nr, end in enumerate(ends)],
            setpgroup=0,
        )
        theirs.close()
        for end in (end for pipe in pipes for end in pipe):
            os.close(end)
        self._connection = ours  # it ends when this is closed, as it is at the latest with us

    def fork(
        self, arguments: list[str], folder: str, environment: dict[str, str], streams: Sequence[int]
    ) -> tuple[int, int]:
        """Start a run; the number of its process, and where its end will be told."""
        told, tells = os.pipe()
        asked = marshal.dumps((arguments, folder, environment))
        descriptors = array.array("i", [*streams, tells])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
        self._connection.sendmsg([asked], rights)
        os.close(tells)
        return next_number(told), told


@cache
def server(engine: str) -> Server | None:
    """The process that forks for the tests of this one; None where it is no help."""
    return Server(engine) if sys.platform == "linux" else None


def engine_of(arguments: Sequence[str]) -> str:
    """The engine that a run asks for: half of what it imports before the script begins."""
    asked = "--on" in arguments and arguments[arguments.index("--on") + 1] == "gradscope"
    return "gradscope" if asked else ""


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What the interpreter and its libraries read when they start."""
    return {k: v for k, v in environment.items() if k.startswith(READ_AT_START)}


def next_number(told: int) -> int:
    """The next that is told."""
    found = os.read(told, 8)
    if len(found) != 8:
        raise ChildProcessError("the process that forks for the tests is gone")
    return int.from_bytes(found, "little")


class ForkedStart(subprocess.Popen[str]):
    """`Popen` of gradscope, started by the server; with three pipes, a folder and an `env`."""

    def _execute_child(self, args: Any, *given: Any) -> None:
        (folder, environment), ends, forking = given[4:6], given[9:15], server(engine_of(args))
        assert forking is not None
        streams = ends[0], ends[3], ends[5]
        self.pid, self._told = forking.fork(list(args[1:]), str(folder), environment, streams)
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._told], [], [], 0)[0]:
            return 0, 0
        status = next_number(self._told)
        os.close(self._told)
        return self.pid, status

    def _internal_poll(self, *given: Any, **more: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def start(
    command: Sequence[str], folder: Path, environment: dict[str, str]
) -> subprocess.Popen[str]:
    """A process with three pipes: gradscope forked where that is the same, all else as ever."""
    forking = server(engine_of(command)) if command[0] == GRADSCOPE else None
    forked = forking is not None and settings(environment) == forking.settings
    pipe = subprocess.PIPE
    return (ForkedStart if forked else subprocess.Popen)(
        command, cwd=folder, env=environment, text=True, stdin=pipe, stdout=pipe, stderr=pipe
    )
