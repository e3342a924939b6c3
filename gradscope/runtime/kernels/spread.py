"""Compiled kernels in several threads: each has a part of the rows, planes or elements to make.

Only results that do not depend on each other are made in different threads, so that every one of
them has the same bits however many there are. Threads are Python's own: a kernel runs without
Python's lock, and needs no other library. They start when the first array comes that is worth it.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeAlias

from gradscope.runtime.kernels.threads import blas_threads

Part: TypeAlias = Callable[[int, int], object]
"""Makes the results from the first number to before the last."""
Done: TypeAlias = "SimpleQueue[BaseException | None]"
Piece: TypeAlias = tuple[Part, int, int, Done]

LEAST: Final = 100_000
"""Nanoseconds of work that a thread is woken for."""


class _Pool:
    """The threads that wait for pieces. A process has one; a forked child begins with a new one."""

    def __init__(self) -> None:
        self.waiting: list[SimpleQueue[Piece]] = []
        self.taken = allocate_lock()  # by one thread of the program; others compute by themselves

    def queues(self, count: int) -> list[SimpleQueue[Piece]]:
        """Where so many threads wait, which start here if they are not there."""
        while len(self.waiting) < count:
            queue: SimpleQueue[Piece] = SimpleQueue()
            start_new_thread(_work, (queue,))
            self.waiting.append(queue)
        return self.waiting[:count]


class _State:
    """How many threads kernels may run in, None until someone asks, and the pool."""

    threads: int | None = None
    pool = _Pool()


def set_kernel_threads(count: int | None) -> None:
    """Let kernels run in so many threads; None: as many as BLAS."""
    _State.threads = count


def spread(part: Part, count: int, cost: float, multiple: int = 1) -> None:
    """Make `count` results by calls of `part`, in several threads where that pays.

    One result costs about so many nanoseconds. Parts begin at multiples of `multiple`.
    """
    if count * cost < 2 * LEAST or _State.threads == 1:
        part(0, count)
    else:
        _spread(part, count, cost, multiple)


def _spread(part: Part, count: int, cost: float, multiple: int) -> None:
    if _State.threads is None:
        _State.threads = blas_threads()
    units = -(-count // multiple)
    pieces = min(_State.threads, units, int(count * cost / LEAST))
    pool = _State.pool
    if pieces < 2 or not pool.taken.acquire(blocking=False):
        part(0, count)
        return
    try:
        ends = [min(units * nr // pieces * multiple, count) for nr in range(1, pieces + 1)]
        _run(part, ends, pool.queues(pieces - 1))
    finally:
        pool.taken.release()


def _run(part: Part, ends: list[int], queues: list[SimpleQueue[Piece]]) -> None:
    """Do the first piece here and the others there; come back when all are done."""
    done: Done = SimpleQueue()
    for queue, first, last in zip(queues, ends, ends[1:], strict=False):
        queue.put((part, first, last, done))
    try:
        part(0, ends[0])
    finally:
        errors = [error for _ in queues if (error := done.get()) is not None]
    if errors:
        raise errors[0]


def _work(queue: SimpleQueue[Piece]) -> None:
    """Do what comes, for ever: the process does not wait for this thread when it ends."""
    while True:
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
