"""Carries out exchanges: collectives one after another, messages side by side.

# Note [One after another]
Ranks must begin the collectives of a group in the same order. So those that do not wait are queued,
and one thread carries them out, each when the previous one has ended. A collective that waits runs
at once on the calling thread if nothing is queued; otherwise it is queued, too.

# Note [One thread in MPI]
Only one thread calls MPI at a time. Nobody waits inside of MPI: a waiting thread tests whether the
exchange has ended, at first often, and then with pauses. So Ctrl-C works, there is a limit of time,
and the end of another rank is seen: a rank that ends sends each other rank the number of its calls.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscope.runtime.distributed.exchange.farewell import Farewells
    from gradscope.runtime.distributed.exchange.work import Work

SPIN = 0.0002  # seconds in which it tests without a pause
PAUSES = 0.00002, 0.001  # the first pause, and the longest

in_mpi = threading.Lock()


class Progress:
    """The exchanges of this process that are under way."""

    farewells: Farewells | None = None  # None: there are no other ranks

    def __init__(self) -> None:
        self._waiting: deque[Work] = deque()
        self._changed = threading.Condition()
        self._busy = self._runs_bucket = False  # whether a collective runs now
        self._thread: threading.Thread | None = None
        self.unfinished: set[Work] = set()

    def run(self, work: Work) -> None:
        """Carry out a collective, and return when it has ended."""
        with self._changed:
            at_once = not self._waiting and not self._busy
            if at_once:
                self._busy = True
            else:
                self._queue(work)
        if at_once:
            self._carry_out(work)
        work.wait()

    def queue(self, work: Work) -> None:
        """Carry out a collective on the thread of this class, after those before it."""
        with self._changed:
            self._queue(work)

    def settle(self) -> None:
        """Return when nothing is queued and nothing runs."""
        with self._changed:
            while self._waiting or self._busy:
                self._changed.wait(PAUSES[1])

    def settle_buckets(self) -> None:
        """The same, if buckets of DistributedDataParallel are queued, or run."""
        if any(work.is_bucket for work in [*self._waiting]) or self._runs_bucket:
            self.settle()

    def _queue(self, work: Work) -> None:
        self._waiting.append(work)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._serve, name="collectives", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._waiting or self._busy:
                    self._changed.wait()
                work = self._waiting.popleft()
                self._busy, self._runs_bucket = True, work.is_bucket
            self._carry_out(work)

    def _carry_out(self, work: Work) -> None:
        try:
            work.carry_out(self)
        finally:
            with self._changed:
                self._busy = self._runs_bucket = False
                self._changed.notify_all()

    def begin(self, start: Callable[[], list[Any]], work: Work) -> list[Any]:
        """Begin an exchange. Returns MPI's requests."""
        with in_mpi:
            requests = start()
        if requests:
            self.unfinished.add(work)
        return requests

    def has_ended(self, requests: Sequence[Any]) -> bool:
        """Whether an exchange has ended."""
        if not requests:
            return True
        with in_mpi:
            left = sum(not request.Test() for request in requests)
        return not left

    def await_end(self, requests: Sequence[Any], work: Work) -> None:
        """Return when an exchange has ended; raise if it never will."""
        begun, pause = time.monotonic(), PAUSES[0]
        while not self.has_ended(requests):
            waited = time.monotonic() - begun
            if waited < SPIN:
                continue
            if self.farewells is not None:
                with in_mpi:
                    self.farewells.look()
                self.farewells.refuse(work)
            if waited > work.timeout:
                raise work.too_late()
            time.sleep(pause)
            pause = min(2 * pause, PAUSES[1])
        self.unfinished.discard(work)


progress = Progress()
