"""The main process's side of a loader's workers: starts them, receives from them, ends them."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from contextlib import suppress
from multiprocessing import connection
from typing import Any

from gradscope.runtime.multiprocessing.tensors import send_tensors
from gradscope.runtime.utils.data._utils.worker import LOOK_AROUND, Job, worker_loop


class Worker:
    """One process and the pipes to and from it.

    Each worker has its own pipes: if it is killed in the middle of a batch, only its pipe breaks,
    and messages of others are neither lost nor delayed.
    """

    def __init__(self, context: Any, job: Job, done: Any, before: list[Worker]) -> None:
        theirs, self.tasks = context.Pipe(duplex=False)
        self.results, back = context.Pipe(duplex=False)
        forks = context.get_start_method() == "fork"
        ours = [end for each in before for end in (each.tasks, each.results)]
        inherited = (*ours, self.tasks, self.results) if forks else ()
        self.process = context.Process(
            target=worker_loop, args=(job, theirs, back, done, inherited), daemon=True
        )
        self.active = True
        self.outstanding = 0
        try:
            self.process.start()
        finally:
            theirs.close()
            back.close()

    def send(self, message: Any) -> None:
        with suppress(OSError):  # a dead worker is reported where its answer is awaited
            self.tasks.send(message)


class Workers:
    """All workers of one iterator."""

    def __init__(self, context: Any, jobs: list[Job]) -> None:
        self.all: list[Worker] = []
        self._process = os.getpid()
        self._done = context.Event()
        self._closed = False
        send_tensors()
        try:
            for job in jobs:
                self.all.append(Worker(context, job, self._done, self.all))
        except BaseException:
            self.close()
            raise

    def receive(self, timeout: float) -> Any:
        """The next (number, batch) from any worker.

        Raises RuntimeError if a worker has died, or none has sent anything within the timeout.
        """
        until = time.monotonic() + timeout if timeout > 0 else None
        while True:
            ends = {each.results: each for each in self.all if not each.results.closed}
            left = LOOK_AROUND if until is None else max(0.0, until - time.monotonic())
            ready = connection.wait(list(ends), left)
            for end in ready:
                worker = ends[end]
                try:
                    message = worker.results.recv_bytes()
                except (EOFError, OSError):
                    self._gone(worker)
                    continue
                return pickle.loads(message)  # noqa: S301  it comes from our own worker
            if until is not None and time.monotonic() >= until:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")

    def _gone(self, worker: Worker) -> None:
        """Handle a closed pipe: the worker was asked to stop, or has crashed."""
        worker.results.close()
        if not worker.active:
            return
        worker.process.join(LOOK_AROUND)
        worker.active = False
        pid, code = worker.process.pid, worker.process.exitcode
        cause = RuntimeError(f"DataLoader worker (pid {pid}) {_ended(code)}")
        raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly") from cause

    def dismiss(self, worker: Worker) -> None:
        """Stop a worker that has no more samples."""
        worker.active = False
        worker.send(None)

    def close(self) -> None:
        """Stop all workers. Takes at most a few seconds, even if some do not react."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        self._done.set()
        for worker in self.all:
            worker.send(None)
        until = time.monotonic() + LOOK_AROUND
        while left := [each for each in self.all if not each.results.closed]:
            ready = connection.wait(
                [each.results for each in left], max(0.0, until - time.monotonic())
            )
            for worker in left:
                if worker.results in ready:
                    _drain(worker)
            if not ready:
                break
        for worker in self.all:
            _end(worker, until)

    def __del__(self) -> None:
        if not sys.is_finalizing():  # then multiprocessing has ended them
            self.close()


def _drain(worker: Worker) -> None:
    """Discard what a worker still sends, so that it does not block."""
    try:
        worker.results.recv_bytes()
    except (EOFError, OSError):
        worker.results.close()


def _end(worker: Worker, until: float) -> None:
    process = worker.process
    process.join(max(0.1, until - time.monotonic()))
    if process.is_alive():
        process.terminate()
        process.join(LOOK_AROUND)
    worker.tasks.close()
    worker.results.close()


def _ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"is killed by signal: {signal.strsignal(-code)}. "
    return (
        f"exited unexpectedly with exit code {code}. Details are lost due to multiprocessing. "
        "Rerunning with num_workers=0 may give better error trace."
    )
