"""The worker process of a loader: it receives keys and sends back batches."""

from __future__ import annotations

import os
import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from gradscope.runtime._utils import ExceptionWrapper
from gradscope.runtime.core.state.settings import set_num_threads
from gradscope.runtime.core.tensors.default_generator import manual_seed
from gradscope.runtime.utils.data._utils.fetch import fetcher

LOOK_AROUND = 5.0
"""Interval, in seconds, at which a waiting process checks that the other one is alive."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Identity of a worker: its id, seed and dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


class _Here:
    """This process's WorkerInfo, if it is a worker."""

    info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker's info inside a worker; None in the main process."""
    return _Here.info


@dataclass(frozen=True, slots=True)
class Job:
    """Arguments of a new worker."""

    iterable: bool
    dataset: Any
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    init_fn: Callable[[int], Any] | None
    worker_id: int
    num_workers: int

    def fetcher(self) -> Any:
        return fetcher(
            self.iterable, self.dataset, self.auto_collation, self.collate_fn, self.drop_last
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """Sent when a worker's copy of an iterable dataset is exhausted."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Asks a worker to start anew; the worker answers with the same."""


class _Sender:
    """Sends batches from its own thread, while the worker continues."""

    def __init__(self, results: Connection) -> None:
        self._results = results
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, number: Any, data: Any, where: str) -> None:
        """Send a batch. If it cannot be sent, send the error instead."""
        try:
            message = bytes(ForkingPickler.dumps((number, data)))
        except Exception:
            message = bytes(ForkingPickler.dumps((number, ExceptionWrapper(where=where))))
        self._waiting.put(message)

    def finish(self, *, at_once: bool) -> None:
        """Wait until everything is sent; with `at_once`, drop the rest."""
        self._waiting.put(None)
        if not at_once:
            self._thread.join()

    def _run(self) -> None:
        try:
            while (message := self._waiting.get()) is not None:
                self._results.send_bytes(message)
        except OSError:  # the program has closed its end
            return


def worker_loop(
    job: Job, tasks: Connection, results: Connection, done: Any, not_ours: tuple[Connection, ...]
) -> None:
    """The main function of a worker. `not_ours` are ends of pipes copied by a fork."""
    for end in not_ours:
        end.close()
    set_num_threads(1)
    seed = job.base_seed + job.worker_id
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(_numpy_seed(job.base_seed, job.worker_id))  # noqa: NPY002  programs draw from it
    _Here.info = WorkerInfo(job.worker_id, job.num_workers, seed, job.dataset)
    sender = _Sender(results)
    try:
        _serve(job, tasks, sender, done)
    except KeyboardInterrupt:
        pass  # the main process got it, too, and reports it
    finally:
        sender.finish(at_once=done.is_set())


def _serve(job: Job, tasks: Connection, sender: _Sender, done: Any) -> None:
    """Fetch requested batches, until the end is sent or the sender is gone."""
    where = f"in DataLoader worker process {job.worker_id}"
    fetching: Any = None
    failed: ExceptionWrapper | None = None
    try:
        if job.init_fn is not None:
            job.init_fn(job.worker_id)
        fetching = job.fetcher()
    except Exception:
        failed = ExceptionWrapper(where=where)
    parent, ended = os.getppid(), False
    while (task := _next_task(tasks, parent)) is not None:
        if isinstance(task, Resume):
            sender.put(task, None, where)
            fetching, ended = job.fetcher(), False
            continue
        if ended or done.is_set():
            continue
        number, keys = task
        data: Any = failed
        if failed is None:
            try:
                data = fetching.fetch(keys)
            except Exception as error:
                ended = isinstance(error, StopIteration) and job.iterable
                data = Ended() if ended else ExceptionWrapper(where=where)
        failed = None
        sender.put(number, data, where)
        del data


def _next_task(tasks: Connection, parent: int) -> Any:
    """The next message; None after the last one."""
    try:
        while not tasks.poll(LOOK_AROUND):
            if os.getppid() != parent:
                return None
        return tasks.recv()
    except (EOFError, OSError):
        return None


# NumPy's generator is seeded from the loader's seed as in PyTorch: with the words that NumPy's
# SeedSequence would derive from these four.


def _numpy_seed(base_seed: int, worker_id: int) -> Any:
    low, high = base_seed & 0xFFFFFFFF, base_seed >> 32
    return np.random.SeedSequence([worker_id, low, high, 0]).generate_state(4)
