"""A process that has imported gradscope, and forks for every run of it: see forked_starts.py.

It is started with the address of a socket and the name of an engine, and reads what to run from
there: the arguments, folder, environment and standard streams. A child that it forks waits for the
run, which is the child's child, and tells the number of its process and how it ended. Here are the
ends of both.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path

MOST = 1 << 17
"""Bytes of a request."""
MOST_DESCRIPTORS = 1 << 16
OF_ENGINES = {
    "": (),
    "gradscope": (
        "gradscope.record.from_runtime.runtime_engine",
        "gradscope.record.from_runtime.script.staged",
    ),
    "all of gradscope": (
        "gradscope.record.from_runtime.runtime_engine",
        "gradscope.record.from_runtime.script.staged",
        "gradscope.runtime.nn",
        "gradscope.runtime.optim",
        "gradscope.runtime.utils.checkpoint",
    ),
    "all of torch": ("torch", "torch._dynamo", "gradscope.record.from_pytorch.source"),
}
"""What a run of each would import. All of an engine is for scripts that do not ask what importing
it does; what an optimizer of PyTorch's first imports belongs to it.
"""

IN_ALL = {"torch._dynamo", "gradscope.runtime.utils.checkpoint"}
"""Of these, one is there where all of an engine is."""


def serve(connection: socket.socket) -> list[str]:
    """Fork for what is asked for. Returns in each run, with its arguments."""
    while True:
        asked, streams, *_ = socket.recv_fds(connection, MOST, 4)
        if not asked:  # nobody is there any more
            os._exit(0)
        if os.fork() == 0:
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            *streams, told = streams
            run = os.fork()
            if run == 0:
                os.close(told)
                return begin(marshal.loads(asked), streams)
            follow(run, told)
        for each in streams:
            os.close(each)


def follow(run: int, told: int) -> None:
    """Tell who runs, and how it ended."""
    os.setpgid(run, run)
    os.write(told, run.to_bytes(8, "little"))
    _, status = os.waitpid(run, 0)
    os.write(told, status.to_bytes(8, "little"))
    os._exit(0)


def begin(asked: tuple[list[str], str, dict[str, str]], streams: list[int]) -> list[str]:
    """Be as a process is at its start."""
    arguments, folder, environment = asked
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return arguments


def run(program: str, arguments: list[str], code: object) -> None:
    """Run the program's own few lines as `__main__`."""
    main = sys.modules["__main__"].__dict__  # with our names, of which none is left
    # To take down an interpreter that holds all of an engine takes longer than a small script.
    end = os._exit if IN_ALL & sys.modules.keys() else None
    flush = sys.stdout.flush, sys.stderr.flush
    sys.argv = [program, *arguments]
    for name in [name for name in main if not name.startswith("__")]:
        del main[name]
    main["__file__"] = program
    try:
        exec(code, main)
    except SystemExit as left:
        if end is None:
            raise
        for each in flush:
            each()
        end(left.code)


def prepare(program: str) -> tuple[object, socket.socket]:
    """Import what the program does, as it does."""
    descriptor, engine = int(sys.argv[2]), sys.argv[3]
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, MOST_DESCRIPTORS)
    connection = socket.socket(fileno=descriptor)
    sys.argv = [program]
    sys.path[0] = str(Path(program).parent)
    for name in ("gradscope.cli", "gradscope.record.run_script", *OF_ENGINES[engine]):
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    return compile(Path(program).read_text(encoding="utf-8"), program, "exec"), connection


if __name__ == "__main__":
    the_code, the_connection = prepare(sys.argv[1])
    run(sys.argv[0], serve(the_connection), the_code)
