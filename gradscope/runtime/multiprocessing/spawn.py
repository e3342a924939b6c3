"""Start several processes that run one function, and raise their errors."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_GRACE = 30.0


class ProcessException(Exception):  # noqa: N818  (PyTorch's name)
    """One of the processes has failed."""

    def __init__(self, msg: str, error_index: int, error_pid: int | None) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid


class ProcessRaisedException(ProcessException):
    """It ended with an uncaught exception."""


class ProcessExitedException(ProcessException):
    """It ended with an exit code, or was killed by a signal."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int | None,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name


def _run(fn: Callable[..., Any], i: int, args: tuple[Any, ...], report: str) -> None:
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # so has the program, which reports it
    except Exception:
        Path(report).write_text(traceback.format_exc(), "utf-8")
        raise SystemExit(1) from None  # the parent reports the error


class ProcessContext:
    """The started processes."""

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until at least one has ended; returns whether all have. Raises a process's error."""
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                self._end_others(grace_period)
                raise self._failure(index)
        return not self.sentinels

    def _end_others(self, grace_period: float | None) -> None:
        if grace_period is not None:
            for process in self.processes:
                process.join(grace_period)
        for way in ("terminate", "kill"):
            for process in self.processes:
                if process.is_alive():
                    getattr(process, way)()
            for process in self.processes:
                process.join(_GRACE if grace_period is None else grace_period)

    def _failure(self, index: int) -> ProcessException:
        process, report = self.processes[index], Path(self.error_files[index])
        if report.exists():
            text = report.read_text("utf-8")
            report.unlink()
            said = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            return ProcessRaisedException(said, index, process.pid)
        code = process.exitcode
        if code >= 0:
            said = f"process {index} terminated with exit code {code}"
            return ProcessExitedException(said, index, process.pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        said = f"process {index} terminated with signal {name}"
        return ProcessExitedException(said, index, process.pid, code, name)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(0, *args)`, `fn(1, *args)`, … in separate processes."""
    context: Any = multiprocessing.get_context(start_method)
    folder = tempfile.gettempdir()
    reports = [
        os.path.join(folder, f"gradscope-{os.getpid()}-{os.urandom(8).hex()}")  # noqa: PTH118
        for _ in range(nprocs)
    ]
    processes = []
    for i, report in enumerate(reports):
        process = context.Process(target=_run, args=(fn, i, args, report), daemon=daemon)
        process.start()
        processes.append(process)
    started = ProcessContext(processes, reports)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """The same, with a new Python interpreter for each process."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
