"""Runs compiled kernels in several threads: each computes a part of the results.

Threads only compute results that do not depend on each other, so that the bits are the same for any
number of threads. The threads are Python's: a kernel runs without Python's lock, and needs no other
library. They start with the first array for which they pay off.

# Note [Cores that are not there]
It is not known in advance whether a second thread helps. Other programs may use the other cores, a
container may have fewer than it sees, and after a matrix product BLAS's own threads keep them busy
for a while by spinning. So a piece that no thread has started when the caller is done with its own
is run by the caller. Afterwards the time is checked: if several threads, all awake, took about as
long as one would have, the next few arrays are left to the caller, twice as many each time.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Final, TypeAlias

from gradscope.runtime.core.kernels.threads import blas_threads

if TYPE_CHECKING:
    from gradscope.runtime.fast.threads.awake import Counts

Part: TypeAlias = Callable[[int, int], object]
"""Computes results from the first index up to, excluding, the last."""
Done: TypeAlias = "SimpleQueue[BaseException | None]"
Piece: TypeAlias = tuple[Part, int, int, Done]
Worker: TypeAlias = "tuple[SimpleQueue[Piece], Counts]"

LEAST: Final = 30_000
"""Least work, in nanoseconds, for an awake thread."""
WAKING: Final = 70_000
"""Additional work, in nanoseconds, for which waking a thread pays off."""
WORTH: Final = 0.85
"""Share of the single-threaded time up to which several threads are used again."""
MOST_LEFT: Final = 16
"""Largest number of arrays left to the caller before several threads are tried again."""


class _Pool:
    """The worker threads. Each process has one pool; a forked child starts with a new one."""

    def __init__(self) -> None:
        self.waiting: list[Worker] = []
        self.taken = allocate_lock()  # by one thread of the program; others compute alone

    def is_awake(self) -> bool:
        """Whether one of the threads polls."""
        return bool(self.waiting) and self.waiting[0][1].is_awake()

    def workers(self, count: int) -> list[Worker]:
        """`count` threads, started if necessary."""
        while len(self.waiting) < count:
            from gradscope.runtime.fast.threads.awake import Counts  # with a compiler

            worker: Worker = SimpleQueue(), Counts()
            start_new_thread(_work, worker)
            self.waiting.append(worker)
        return self.waiting[:count]


class _State:
    """The number of threads of kernels, None if not yet determined, and the pool."""

    threads: int | None = None
    pool = _Pool()
    left = 0  # arrays to leave to the caller; see Note [Cores that are not there]
    next_left = 1


def set_kernel_threads(count: int | None) -> None:
    """Set the number of threads of kernels; None: as many as BLAS."""
    _State.threads = count
    _State.left, _State.next_left = 0, 1


def kernel_threads() -> int:
    """The number of threads of kernels."""
    if _State.threads is None:
        _State.threads = blas_threads()
    return _State.threads


def spread(part: Part, count: int, cost: float, multiple: int = 1) -> None:
    """Compute `count` results by calls of `part`, in several threads if that pays off.

    `cost` is the time of one result in nanoseconds. Parts begin at multiples of `multiple`.
    """
    if count * cost < 2 * LEAST or _State.threads == 1:
        part(0, count)
    else:
        _spread(part, count, cost, multiple)


def _spread(part: Part, count: int, cost: float, multiple: int) -> None:
    units, pool = -(-count // multiple), _State.pool
    least = LEAST if pool.is_awake() else LEAST + WAKING
    pieces = min(kernel_threads(), units, int(count * cost / least))
    if pieces > 1 and _State.left > 0:
        _State.left -= 1
        pieces = 1
    if pieces < 2 or not pool.taken.acquire(blocking=False):
        part(0, count)
        return
    try:
        ends = [min(units * nr // pieces * multiple, count) for nr in range(1, pieces + 1)]
        _run(part, ends, pool.workers(pieces - 1))
    finally:
        pool.taken.release()


def _run(part: Part, ends: list[int], workers: list[Worker]) -> None:
    """Run the first piece here and the others in workers; return when all are done."""
    done: Done = SimpleQueue()
    were_awake = all(counts.is_awake() for _, counts in workers)
    begin = perf_counter_ns()
    for (queue, counts), first, last in zip(workers, ends, ends[1:], strict=False):
        counts.keep_away()
        queue.put((part, first, last, done))
        counts.given()
    begin_here = thread_time_ns()
    try:
        part(0, ends[0])
        here = thread_time_ns() - begin_here
    finally:
        errors = [error for worker in workers if (error := _error_there(worker, done)) is not None]
    if errors:
        raise errors[0]
    if were_awake:
        _look_at(perf_counter_ns() - begin, here * len(ends))


def _error_there(worker: Worker, done: Done) -> BaseException | None:
    """Wait for a worker's piece, or run it here if the worker has not started it."""
    queue, counts = worker
    try:
        part, first, last, _ = queue.get_nowait()
    except Empty:
        counts.until_done()
        return done.get()
    counts.taken_back()
    return _error_of(part, first, last)


def _look_at(taken: int, by_one: int) -> None:
    """Check whether threads paid off: the time taken, and the time of one thread."""
    if taken <= by_one * WORTH:
        _State.next_left = 1
    else:
        _State.left = _State.next_left
        _State.next_left = min(2 * _State.next_left, MOST_LEFT)


def _work(queue: SimpleQueue[Piece], counts: Counts) -> None:
    """The worker's loop. It is a daemon: the process does not wait for it."""
    counts.begin()
    while True:
        counts.rest()
        part, first, last, done = queue.get()
        done.put(_error_of(part, first, last))
        del part, done  # release references while idle


def _error_of(part: Part, first: int, last: int) -> BaseException | None:
    try:
        part(first, last)
    except BaseException as error:  # the caller raises it
        return error
    return None


def _in_child() -> None:
    """Reset in a forked child: its threads are missing, and the pool may have been in use."""
    _State.pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
