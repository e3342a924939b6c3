"""Compiled kernels in several threads: each has a part of the rows, planes or elements to make.

Only results that do not depend on each other are made in different threads, so that every one of
them has the same bits however many there are. Threads are Python's own: a kernel runs without
Python's lock, and needs no other library. They start when the first array comes that is worth it.

# Note [Cores that are not there]
Whether a second thread helps is not known before: other programs may have the other cores, a
container may be granted fewer than it sees, and for a while after a product of matrices BLAS's own
threads keep them busy with waiting. So a piece for which no thread has come when the caller is done
with its own is done by the caller. And it is looked at afterwards: where several threads, all of
them awake, took about as long as one would have, the next few arrays are left to the caller, twice
as many each time.
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
"""Makes the results from the first number to before the last."""
Done: TypeAlias = "SimpleQueue[BaseException | None]"
Piece: TypeAlias = tuple[Part, int, int, Done]
Worker: TypeAlias = "tuple[SimpleQueue[Piece], Counts]"

LEAST: Final = 30_000
"""Nanoseconds of work that a thread is given which is awake."""
WAKING: Final = 70_000
"""So much more is worth to wake one."""
WORTH: Final = 0.85
"""What share of the time that one thread would have taken is worth to do it again."""
MOST_LEFT: Final = 16
"""So many arrays are left to the caller at most before several threads are tried again."""


class _Pool:
    """The threads that wait for pieces. A process has one; a forked child begins with a new one."""

    def __init__(self) -> None:
        self.waiting: list[Worker] = []
        self.taken = allocate_lock()  # by one thread of the program; others compute by themselves

    def is_awake(self) -> bool:
        """Whether one of them looks for work."""
        return bool(self.waiting) and self.waiting[0][1].is_awake()

    def workers(self, count: int) -> list[Worker]:
        """So many threads, which start here if they are not there."""
        while len(self.waiting) < count:
            from gradscope.runtime.fast.threads.awake import Counts  # with a compiler

            worker: Worker = SimpleQueue(), Counts()
            start_new_thread(_work, worker)
            self.waiting.append(worker)
        return self.waiting[:count]


class _State:
    """How many threads kernels may run in, None until someone asks, and the pool."""

    threads: int | None = None
    pool = _Pool()
    left = 0  # arrays to leave to the caller; see Note [Cores that are not there]
    next_left = 1


def set_kernel_threads(count: int | None) -> None:
    """Let kernels run in so many threads; None: as many as BLAS."""
    _State.threads = count
    _State.left, _State.next_left = 0, 1


def kernel_threads() -> int:
    """In how many threads kernels run, where that pays."""
    if _State.threads is None:
        _State.threads = blas_threads()
    return _State.threads


def spread(part: Part, count: int, cost: float, multiple: int = 1) -> None:
    """Make `count` results by calls of `part`, in several threads where that pays.

    One result costs about so many nanoseconds. Parts begin at multiples of `multiple`.
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
    """Do the first piece here and the others there; come back when all are done."""
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
    """Wait for a thread's piece, or do it here if the thread has not come for it yet."""
    queue, counts = worker
    try:
        part, first, last, _ = queue.get_nowait()
    except Empty:
        counts.until_done()
        return done.get()
    counts.taken_back()
    return _error_of(part, first, last)


def _look_at(taken: int, by_one: int) -> None:
    """See whether it was worth it: it took so long, and one thread would have taken so long."""
    if taken <= by_one * WORTH:
        _State.next_left = 1
    else:
        _State.left = _State.next_left
        _State.next_left = min(2 * _State.next_left, MOST_LEFT)


def _work(queue: SimpleQueue[Piece], counts: Counts) -> None:
    """Do what comes, for ever: the process does not wait for this thread when it ends."""
    counts.begin()
    while True:
        counts.rest()
        part, first, last, done = queue.get()
        done.put(_error_of(part, first, last))
        del part, done  # what they hold is not needed while nothing comes


def _error_of(part: Part, first: int, last: int) -> BaseException | None:
    try:
        part(first, last)
    except BaseException as error:  # the caller raises it
        return error
    return None


def _in_child() -> None:
    """A forked child has none of the threads, and the pool may have been taken."""
    _State.pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
