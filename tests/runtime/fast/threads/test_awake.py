"""Who waits for a piece, or for its end, is told by two counts, and goes on without them."""

from __future__ import annotations

import os
import threading
from _thread import get_native_id

import pytest

from gradscope.runtime.fast.threads import awake
from gradscope.runtime.fast.threads.awake import DONE, GIVEN, Counts


def told(counts: Counts) -> tuple[int, int]:
    return int(counts.words[GIVEN // 8]), int(counts.words[DONE // 8])


def test_who_rests_tells_that_a_piece_is_done() -> None:
    counts = Counts()
    counts.given()
    counts.rest()  # before the first piece, of which none is done
    assert told(counts) == (1, 0)

    counts.given()
    counts.rest()
    assert told(counts) == (2, 1)


def test_nobody_waits_for_ever() -> None:
    counts = Counts()
    counts.rest()
    counts.given()
    counts.until_done()
    assert told(counts) == (1, 0)


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="threads can't be told where to run, or have one core",
)
def test_a_thread_keeps_away_from_the_core_that_its_caller_is_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts, end = Counts(), threading.Event()
    begun, cores = threading.Event(), os.sched_getaffinity(0)

    def work() -> None:
        counts.begin()
        begun.set()
        end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    assert counts.thread is not None
    for core in sorted(cores)[:2]:  # the caller comes to another one
        monkeypatch.setattr(awake, "_core", lambda core=core: core)
        counts.keep_away()
        assert os.sched_getaffinity(counts.thread) == cores - {core}
    end.set()
    thread.join()

    assert counts.thread != get_native_id()
    assert os.sched_getaffinity(0) == cores


def test_a_thread_that_cannot_be_moved_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts()
    counts.thread = 2**22 + 1  # no thread has this number
    monkeypatch.setattr(awake, "_core", lambda: 0)

    counts.keep_away()

    assert counts.away_from == 0
