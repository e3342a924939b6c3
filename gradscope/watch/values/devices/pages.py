"""Results of measurements on devices, on their way to the CPU.

# Note [No waiting]
Each measurement writes rows of a page, which is memory of the device. A page is copied when it is
full or when notes are written: without blocking, on its own stream, into pinned memory, followed by
an event. It is read when the event has passed, whenever that is; nothing waits for it before the
recording ends. A backend without streams and events can only copy and wait: there, pages stay on
the device until the recording ends, or until a step of an optimizer is over and MANY are in use.
"""

from __future__ import annotations

from contextlib import nullcontext
from time import monotonic, sleep
from typing import Any, NamedTuple

import torch

from gradscope.watch.values.devices.reductions import NUMBERS, Floats

ROWS = 1024
"""Number of rows of a page."""

MOST = 64
"""Number of pages of a recording; what is measured when all are in use is lost."""

MANY = 16
PATIENCE, A_MOMENT = 5.0, 1e-3
"""Seconds after which the results of a device are given up when the recording ends."""

OF_STREAMS = ("Event", "current_stream", "stream")


class Backend(NamedTuple):
    """PyTorch's module for a kind of device: `torch.cuda`, for example; None: there is none."""

    module: Any

    @property
    def has_streams(self) -> bool:
        """Whether there are streams, and events that show how far a stream is."""
        return all(hasattr(self.module, name) for name in OF_STREAMS)

    def stream(self, device: Any) -> Any:
        """The current stream of this thread; None: there are no streams."""
        return self.module.current_stream(device) if self.has_streams else None

    @property
    def is_capturing(self) -> bool:
        """Whether operations of this thread are put into a graph instead of running."""
        capturing = getattr(self.module, "is_current_stream_capturing", None)
        return capturing is not None and bool(capturing())


def backend(device: Any) -> Backend:
    """The backend of a device."""
    return Backend(getattr(torch, device.type, None))


class PageKey(NamedTuple):
    """What all rows of a page have in common. `stream`: None if there are none."""

    device: Any
    dtype: Any
    stream: Any


class Page:
    """Rows on a device, written on one stream, and their copy."""

    def __init__(self, key: PageKey) -> None:
        self.key, self._backend = key, backend(key.device)
        shape = ROWS, len(NUMBERS)
        self.rows = torch.empty(shape, dtype=key.dtype, device=key.device)
        self._copy = _host_memory(shape, key.dtype)
        self._event = None if key.stream is None else self._backend.module.Event()
        self.numbers: list[int] = []  # of its used rows

    @property
    def waits(self) -> bool:
        """Whether copying it waits for the device."""
        return self._event is None

    @property
    def is_there(self) -> bool:
        """Whether its copy has arrived."""
        return self._event is None or (not self._backend.is_capturing and self._event.query())

    def copy(self) -> None:
        """Copy the used rows to the CPU, or put that into its stream."""
        many, stream = len(self.numbers), self.key.stream
        with nullcontext() if stream is None else self._backend.module.stream(stream):
            self._copy[:many].copy_(self.rows[:many], non_blocking=not self.waits)
            if self._event is not None:
                self._event.record(stream)

    def read(self) -> dict[int, Floats]:
        """Its rows by number; then it may be used again."""
        found: Floats = self._copy[: len(self.numbers)].to(torch.float64, copy=True).numpy()
        numbers, self.numbers = self.numbers, []
        return dict(zip(numbers, found, strict=True))


def _host_memory(shape: tuple[int, int], dtype: Any) -> Any:
    """Memory that a device can copy to without waiting, if the backend has any."""
    try:
        return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=True)
    except (NotImplementedError, RuntimeError):
        return torch.empty(shape, dtype=dtype, device="cpu")


class Pages:
    """All pages of a recording. Used by one thread at a time."""

    def __init__(self) -> None:
        self.rows: dict[int, Floats] = {}
        """Rows that have arrived, by number."""
        self.next = 1
        """The number of the next row."""
        self.lost = 0
        """Number of rows that will not arrive."""
        self._open: dict[PageKey, Page] = {}
        self._sent: list[Page] = []
        self._unused: dict[PageKey, list[Page]] = {}
        self._many = 0

    @property
    def is_filling(self) -> bool:
        """Whether many pages wait for the program to be between two steps."""
        return sum(page.waits for page in self._sent) >= MANY

    def open(self, key: PageKey) -> Page | None:
        """A page with an unused row; None: too many are in use."""
        page = self._open.get(key)
        if page is not None and len(page.numbers) < ROWS:
            return page
        if page is not None:
            self._send(page)
        self.collect()
        unused = self._unused.get(key)
        if unused:
            page = unused.pop()
        elif self._many < MOST:
            self._many += 1
            page = Page(key)
        else:
            return None
        self._open[key] = page
        return page

    def used(self, page: Page) -> None:
        """The next row of this page was written."""
        page.numbers.append(self.next)
        self.next += 1

    def send(self) -> None:
        """Send all used rows that can be copied without waiting."""
        for page in list(self._open.values()):
            if page.numbers and not page.waits:
                self._send(page)

    def _send(self, page: Page) -> None:
        del self._open[page.key]
        if not page.waits:
            page.copy()
        self._sent.append(page)

    def collect(self, *, waits: bool = False) -> None:
        """Read the pages that have arrived; with `waits`, also those that have to be waited for."""
        sent, self._sent = self._sent, []
        for page in sent:
            try:
                if page.waits and waits:
                    page.copy()
                if not page.is_there or page.waits > waits:
                    self._sent.append(page)
                    continue
                self.rows.update(page.read())
            except RuntimeError:  # the device has failed
                self.lost += len(page.numbers)
                continue
            self._unused.setdefault(page.key, []).append(page)

    def finish(self) -> None:
        """Wait for all rows, but not forever: a device may be stuck."""
        for page in list(self._open.values()):
            if page.numbers:
                self._send(page)
        until = monotonic() + PATIENCE
        self.collect(waits=True)
        while self._sent and monotonic() < until:
            sleep(A_MOMENT)
            self.collect()
        self.lost += sum(len(page.numbers) for page in self._sent)
        self._sent = []
