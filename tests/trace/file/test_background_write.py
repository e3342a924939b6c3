"""Pieces of a file, written while the program goes on."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradscope.trace.file.background_write import LONG, Pen


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


def content(file: int) -> bytes:
    return os.pread(file, 1 << 26, 0)


def test_pieces_long_and_short_are_all_there_after_waiting(file: int) -> None:
    pen, expected = Pen(file), b""
    for n in range(30):
        piece = bytes([n]) * (LONG + n if n % 3 else n)
        pen.write(len(expected), piece)
        expected += piece
    pen.wait()

    assert content(file) == expected
    assert pen.failure is None


def test_a_piece_written_twice_is_there_once(file: int) -> None:
    pen, piece = Pen(file), os.urandom(LONG)
    pen.write(0, piece)
    pen.write(0, piece)
    pen.write(LONG, b"end")

    assert content(file) == piece + b"end"


def test_what_cannot_be_written_is_cut_off_and_nothing_follows(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pen, write = Pen(file), os.pwrite
    pen.write(0, b"a" * LONG)
    pen.wait()

    def fail(descriptor: int, data: bytes, at: int) -> int:
        if at == LONG:
            return write(descriptor, data[:7], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    pen.write(LONG, b"b" * LONG)
    pen.wait()
    monkeypatch.undo()
    pen.write(2 * LONG, b"c" * LONG)
    pen.wait()

    assert pen.failure is not None
    assert pen.failure.errno == errno.ENOSPC
    assert content(file) == b"a" * LONG


def test_without_threads_it_writes_all_the_same(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    pen = Pen(file)
    pen.write(0, b"a" * LONG)

    assert content(file) == b"a" * LONG
