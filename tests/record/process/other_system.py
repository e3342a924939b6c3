"""Run gradscope as if on another system: python other_system.py SYSTEM MACHINE TORCH ARGUMENTS.

What Linux has and the other system lacks is removed first. The standard library and the packages
look at the system as they are imported, so they are imported before; so is PyTorch, if TORCH is
"torch".
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import builtins
import ctypes
import io
import os
import platform
import runpy
import signal
import sys
import sysconfig
import time
from importlib import import_module
from typing import Any

IMPORTED_BEFORE = (
    "asyncio", "multiprocessing.popen_spawn_posix", "multiprocessing.shared_memory",
    "llvmlite.binding", "numba", "rich.console", "typer",
)  # fmt: skip
MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
OF_OS = """
    chown fchmod fork forkpty getegid geteuid getpgid getpgrp getuid killpg memfd_create mkfifo
    posix_fadvise posix_fallocate posix_spawn pread pwrite register_at_fork sched_getaffinity
    set_blocking setpgid setsid statvfs sysconf uname wait4 O_CLOEXEC O_NOFOLLOW O_NONBLOCK WNOHANG
"""
OF_SIGNAL = """
    alarm getitimer pause pthread_kill pthread_sigmask setitimer siginterrupt sigpending sigwait
    ITIMER_REAL SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP
    SIGUSR1 SIGUSR2 SIGVTALRM SIG_BLOCK SIG_SETMASK
"""
OF_TIME = "clock_getres clock_gettime clock_gettime_ns tzset CLOCK_MONOTONIC CLOCK_REALTIME"
OF_OWN_SIGNAL = "pthread_kill siginterrupt"
LACKS: tuple[tuple[Any, str], ...] = (
    (os, OF_OS), (signal, OF_SIGNAL), (_signal, OF_OWN_SIGNAL), (time, OF_TIME),
)  # fmt: skip
"""What Windows lacks."""

SYSTEMS = {"win32": "Windows", "darwin": "Darwin"}
own_library, own_open, own_os_open = ctypes.CDLL, builtins.open, os.open


class NamedLibrary(ctypes.CDLL):
    """On Windows, a library has a name."""

    def __init__(self, name: Any, *more: Any, **named: Any) -> None:
        if name is None:
            raise TypeError("bad argument type for built-in operation")
        super().__init__(name, *more, **named)


def absent(path: Any) -> bool:
    return isinstance(path, str | os.PathLike) and os.fspath(path)[:6] in ("/proc/", b"/proc/")


def open_text(path: Any, *more: Any, **named: Any) -> Any:
    if absent(path):
        raise FileNotFoundError(2, "No such file", path)
    return own_open(path, *more, **named)


def open_number(path: Any, *more: Any, **named: Any) -> int:
    if absent(path):
        raise FileNotFoundError(2, "No such file", path)
    return own_os_open(path, *more, **named)


def become(system: str, machine: str) -> None:
    """Remove what the system lacks, and give its names."""
    sysconfig.get_config_vars()
    if system == "win32":
        sys.modules.update(dict.fromkeys(MODULES))  # type: ignore[arg-type]
        for module, names in LACKS:
            for name in names.split():
                vars(module).pop(name, None)
        ctypes.CDLL = NamedLibrary  # type: ignore[misc]
    builtins.open = io.open = open_text  # type: ignore[assignment]
    os.open = open_number
    sys.platform = system
    platform.system = lambda: SYSTEMS[system]
    platform.machine = lambda: machine


if __name__ == "__main__":
    _, called, processor, pytorch, *arguments = sys.argv
    for name in (*IMPORTED_BEFORE, *(["torch._dynamo"] if pytorch == "torch" else [])):
        import_module(name)
    become(called, processor)
    sys.argv = ["gradscope", *arguments]
    runpy.run_module("gradscope", run_name="__main__", alter_sys=True)
