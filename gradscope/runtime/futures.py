"""`torch.futures`: results that arrive later, as communication hooks return them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.core.errors import missing

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A result that arrives later. `then` and `add_done_callback` run where it arrives."""

    __module__ = "torch.futures"

    def __init__(self, *, devices: Any = None) -> None:
        self._there = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []
        self._drive: Callable[[], Any] | None = None  # lets the result arrive

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def done(self) -> bool:
        """Whether the result, or an exception, has arrived."""
        return self._there.is_set()

    def wait(self) -> Any:
        """Wait for the result; raise its exception, if that arrives instead."""
        if self._drive is not None and not self.done():
            self._drive()
        self._there.wait()
        return self.value()

    def value(self) -> Any:
        """The result, which has arrived."""
        if self._error is not None:
            raise self._error
        if not self.done():
            raise RuntimeError("Future is not completed")
        return self._value

    def set_result(self, result: Any) -> None:
        """The result has arrived."""
        self._arrives(result, None)

    def set_exception(self, result: BaseException) -> None:
        """An exception has arrived instead of a result."""
        assert isinstance(result, Exception), (
            f"{result} is of type {type(result)}, not an Exception."
        )
        self._arrives(None, result)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of what `callback` returns, which is called with this future when it is done."""
        made = Future()
        made._drive = self._drive

        def call(done: Future) -> None:
            try:
                made.set_result(callback(done))
            except Exception as error:
                made.set_exception(error)

        self.add_done_callback(call)
        return made

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call `callback` with this future when it is done; at once if it is."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def _arrives(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future "
                    "can only be marked completed once."
                )
            self._value, self._error = value, error
            self._there.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def collect_all(futures: Sequence[Future]) -> Future:
    """A future that is done when all of these are; its result is the list of them."""
    made, waiting, left = Future(), [*futures], threading.Lock()
    still = {id(each) for each in waiting}

    def arrived(done: Future) -> None:
        with left:
            still.discard(id(done))
            if not still and not made.done():
                made.set_result(waiting)

    def drive() -> None:
        for each in waiting:
            each.wait()

    made._drive = drive
    if not waiting:
        made.set_result(waiting)
    for each in waiting:
        each.add_done_callback(arrived)
    return made


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """The results of all these futures."""
    return [each.wait() for each in collect_all(futures).wait()]


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.futures", name, __all__)
