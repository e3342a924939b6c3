"""`Work`: an exchange that is under way, or has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradscope.runtime.distributed.exchange.progress import Progress, progress
from gradscope.runtime.futures import Future

if TYPE_CHECKING:
    from gradscope.runtime.distributed.groups import ProcessGroup

ONE_BY_ONE = "send", "recv"
"""Exchanges of two ranks, which are no calls of their group."""


class Work:
    """An exchange: how it begins, and what is done when it has ended.

    `start` returns MPI's requests. `finish` runs once, on the thread that sees the end. `told` has
    methods `begins` and `ends`, which are called around the exchange.
    """

    __module__ = "torch.distributed"

    def __init__(
        self,
        name: str,
        group: ProcessGroup,
        start: Callable[[], list[Any]],
        finish: Callable[[], object] | None = None,
        *,
        result: list[Any] | None = None,
        peer: int | None = None,
        told: Any = None,
    ) -> None:
        self.name, self.group, self.peer = name, group, peer
        self.number = group.count() if peer is None and name not in ONE_BY_ONE else 0
        self.timeout = group.timeout.total_seconds()
        self._start, self._finish = start, finish
        self._result = result or []
        self._told = told
        self._requests: list[Any] = []
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._future: Future | None = None

    # -- what PyTorch's Work has ----------------------------------------------------------------

    def wait(self, timeout: Any = None) -> bool:
        """Return True when the exchange has ended; raise its error."""
        if self._requests and not self._over.is_set():
            self._complete(progress)  # a message: nobody else looks after it
        self._over.wait()
        if self._error is not None:
            raise self._error
        return True

    @property
    def is_bucket(self) -> bool:
        """Whether it reduces a bucket of DistributedDataParallel, and tells so itself."""
        return self._told is not None

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        """Whether the exchange has ended."""
        if self._requests and not self._over.is_set() and progress.has_ended(self._requests):
            self._complete(progress)
        return self._over.is_set()

    def is_success(self) -> bool:
        return self._over.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> list[Any]:
        """The tensors that the exchange filled."""
        return self._result

    def source_rank(self) -> int:
        """The rank from which a message came."""
        if self.peer is None:
            raise RuntimeError("sourceRank() may only be called on work objects of recv")
        return self.peer

    def came_from(self) -> int:
        """The rank in the group from which a message of any rank came."""
        return int(self._requests[0].source)

    def get_future(self) -> Future:
        """A future of the tensors that the exchange fills."""
        with self._lock:
            if self._future is None:
                self._future = Future()
                self._future._drive = self.wait
                if self._over.is_set():
                    self._fill(self._future)
            return self._future

    # -- how it is carried out -------------------------------------------------------------------

    def carry_out(self, by: Progress) -> None:
        """Begin a collective and wait for its end. An error is kept, for `wait`."""
        if self._told is not None:
            self._told.begins()
        try:
            by.await_end(by.begin(self._start, self), self)
            if self._finish is not None:
                self._finish()
        except BaseException as error:
            self._ends(error)
        else:
            self._ends(None)

    def begin_message(self) -> Work:
        """Begin to send or receive. Whoever waits for the end looks after it."""
        self._requests = progress.begin(self._start, self)
        return self

    def _complete(self, by: Progress) -> None:
        with self._lock:
            if self._over.is_set():
                return
            requests = self._requests
        try:
            by.await_end(requests, self)
            if self._finish is not None:
                self._finish()
        except BaseException as error:
            self._ends(error)
            raise
        self._ends(None)

    def _ends(self, error: BaseException | None) -> None:
        with self._lock:
            if self._over.is_set():
                return
            self._error = error
            if self._told is not None:
                self._told.ends()
            self._start = self._finish = None  # type: ignore[assignment]
            future = self._future
            self._over.set()
        if future is not None:
            self._fill(future)

    def _fill(self, future: Future) -> None:
        if isinstance(self._error, Exception):
            future.set_exception(self._error)
        else:
            future.set_result(self._result)

    def too_late(self) -> RuntimeError:
        """The error when not all ranks took part in time."""
        from gradscope.runtime.distributed.errors import DistBackendError

        return DistBackendError(
            f"{self.in_words()} did not end within {self.timeout:g} s: not all ranks have called "
            "it (the limit is init_process_group(timeout=…))"
        )

    def in_words(self) -> str:
        """As in "all_reduce in default_pg"."""
        if self.name in ONE_BY_ONE:
            return f"{self.name} with rank {self.peer}"
        return f"{self.name} in {self.group.group_desc}"
