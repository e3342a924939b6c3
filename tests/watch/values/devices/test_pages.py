"""Pages of results, with a simulated stream; the CPU stands for the device."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.torch


class Stream:
    """A stream that has done what was recorded before `done`."""

    recorded = done = 0


class Event:
    """An event of such a stream. Nothing may wait for it."""

    place = 0

    def record(self, stream: Stream) -> None:
        stream.recorded += 1
        self.stream, self.place = stream, stream.recorded

    def query(self) -> bool:
        if self.stream.done < 0:
            raise RuntimeError("the device has failed")
        return self.stream.done >= self.place


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Any:
    from gradscope.watch.values.devices import pages as module

    here = SimpleNamespace(Event=Event, stream=lambda _: nullcontext(), current_stream=None)
    monkeypatch.setattr(module, "backend", lambda _: module.Backend(here))
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    monkeypatch.setattr(module, "ROWS", 4)
    monkeypatch.setattr(module, "MOST", 3)
    monkeypatch.setattr(module, "MANY", 2)
    return module.Pages()


def key(stream: Stream | None) -> Any:
    import torch

    from gradscope.watch.values.devices.pages import PageKey

    return PageKey(torch.device("cpu"), torch.float32, stream)


def put(pages: Any, stream: Stream | None, many: int) -> int:
    """Write this many rows, which contain their numbers. Returns how many there was room for."""
    for done in range(many):
        page = pages.open(key(stream))
        if page is None:
            return done
        page.rows[len(page.numbers)] = pages.next
        pages.used(page)
    return many


def arrived(pages: Any) -> list[int]:
    assert all((row == number).all() for number, row in pages.rows.items())
    return sorted(pages.rows)


def test_rows_are_read_when_the_stream_has_come_so_far(pages: Any) -> None:
    stream = Stream()
    assert put(pages, stream, 2) == 2
    pages.send()
    assert put(pages, stream, 1) == 1
    pages.send()
    for done, there in ((0, []), (1, [1, 2]), (2, [1, 2, 3])):
        stream.done = done
        pages.collect()
        assert arrived(pages) == there


def test_each_stream_has_pages_of_its_own(pages: Any) -> None:
    one, other = Stream(), Stream()
    for stream in (one, other, one):
        put(pages, stream, 1)
    pages.send()
    other.done = 1
    pages.collect()
    assert arrived(pages) == [2]


def test_a_device_that_is_slow_gets_no_more_memory(pages: Any) -> None:
    stream = Stream()
    assert put(pages, stream, 20) == 12
    stream.done = 1
    assert put(pages, stream, 20) == 4
    stream.done = 4
    pages.collect()
    assert arrived(pages) == list(range(1, 17))


def test_what_never_arrives_is_lost(pages: Any) -> None:
    stuck, failed, good = Stream(), Stream(), Stream()
    good.done, failed.done = 1, -1
    for stream, many in ((stuck, 2), (failed, 1), (good, 1)):
        put(pages, stream, many)
    pages.finish()
    assert arrived(pages) == [4]
    assert pages.lost == 3


def test_without_streams_copies_wait_only_between_steps_and_at_the_end(pages: Any) -> None:
    put(pages, None, 5)
    pages.send()
    pages.collect()
    assert arrived(pages) == []
    assert not pages.is_filling
    put(pages, None, 4)
    assert pages.is_filling
    pages.collect(waits=True)
    assert arrived(pages) == list(range(1, 9))
    pages.finish()
    assert arrived(pages) == list(range(1, 10))
