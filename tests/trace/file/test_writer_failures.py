"""What can happen to a program while it writes: a full disk, Ctrl-C, a fork, a slow disk."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradscope.errors import MissingProgramError, RecordingError
from gradscope.trace.file import file_writer
from gradscope.trace.file.file_lines import header
from gradscope.trace.load_save import load
from gradscope.trace.schema import Frame, Push, String
from gradscope.trace.writer import FileWriter
from tests.trace.file.test_file_writer import push_window


def no_space(descriptor: int, data: bytes, at: int) -> int:
    """A disk of 2,200 bytes, which takes 700 at a time."""
    room = 2_200 - at
    if room <= 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return PWRITE(descriptor, data[: min(room, 700)], at)


PWRITE = os.pwrite


@pytest.mark.parametrize("background", [False, True])
def test_a_full_disk_ends_the_recording_and_is_told_once_at_the_end(
    background: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    monkeypatch.setattr(os, "pwrite", no_space)
    writer = FileWriter(path, background=background)
    for window in range(20):
        push_window(writer, window)

    with pytest.raises(
        RecordingError, match="No space left on device; the trace is complete up to window"
    ):
        writer.close()
    writer.close()

    trace = load(path)
    assert trace.truncated
    assert 0 < trace.event_count < 2_000
    assert trace.event_count % 100 == 0
    (note,) = trace.notes
    assert note.startswith(f"truncated: {trace.event_count} events recovered, 0 bytes lost; ")
    assert note.endswith(
        "; writing stopped there ('No space left on device'), everything after it is missing"
    )


def test_a_file_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "absent" / "trace.json", "No such file or directory"),
        ("a\0b", "embedded null"),
        ("/dev/full", "No space left on device"),
    ):
        with pytest.raises(RecordingError, match=f"cannot write .*: {reason}"):
            FileWriter(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_is_not_numbered_because_another_process_has_locked_it() -> None:
    full = Path("/dev/full")
    with full.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(RecordingError, match="No space left on device"):
            FileWriter(full)


def test_without_the_package_zstandard_a_zst_file_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json.zst"
    writer = FileWriter(path)
    writer.close()
    monkeypatch.setitem(sys.modules, "zstandard", None)

    for use in (FileWriter, load):
        with pytest.raises(MissingProgramError, match=r"pip install zstandard"):
            use(path)


class Interruption(BaseException):
    """Ctrl-C, at a bad moment."""


def test_an_interruption_anywhere_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """See Note [Interrupted anywhere]: every line of the writer is interrupted once."""
    path = tmp_path / "trace.json"
    moments = interrupted(path, at=10**9)
    assert moments > 300

    for at in range(0, moments, 3):
        interrupted(path, at)
        trace = load(path)
        assert not trace.truncated, at
        assert trace.table(Push)["seq"].tolist() == list(range(400)), at
        assert [f.text for f in trace.rows(Frame)] == [f"line {n}" for n in range(4)], at
        assert len(set(trace.table(String)["id"].tolist())) == len(trace.table(String)), at


def interrupted(path: Path, at: int) -> int:
    """Write four windows; the `at`-th line that runs meanwhile raises. Returns how many ran."""
    writer = FileWriter(path, background=False)
    lines = 0

    def watch(frame: Any, event: str, argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != file_writer.__file__:
            return watch
        if event == "line":
            lines += 1
            if lines == at:
                sys.settrace(None)
                raise Interruption
        return watch

    def survive(step: Callable[[], None]) -> None:
        sys.settrace(watch if lines < at else None)
        try:
            step()
        except Interruption:
            step()  # as a handler would that goes on
        finally:
            sys.settrace(None)

    for window in range(4):
        seq = np.arange(window * 100, window * 100 + 100)
        text = writer.intern(f"line {window}")
        writer.block(Frame, {"id": [window], "text": [text]})
        writer.block(Push, {"seq": seq})
        survive(writer.commit)
    survive(writer.close)
    writer.close()
    return lines


FORKS = """
import os, sys
from gradscope.trace.schema import Push
from gradscope.trace.writer import FileWriter

writer = FileWriter(sys.argv[1], background=sys.argv[2] == "True")
writer.block(Push, {"seq": [0]})
writer.commit()
writer.block(Push, {"seq": [1]})
child = os.fork()
writer.block(Push, {"seq": [2]})
writer.commit()
if child == 0:
    writer.close()
    sys.exit(0)
os.waitpid(child, 0)
writer.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("background", [False, True])
def test_a_forked_child_does_not_write_into_the_file(background: bool, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"

    command = [sys.executable, "-W", "ignore", "-c", FORKS, str(path), str(background)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3], timeout=60)

    assert load(path).table(Push)["seq"].tolist() == [0, 1, 2]


def test_what_waits_to_be_written_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def slowly(descriptor: int, data: bytes, at: int) -> int:
        if at > len(header((1, 0))):
            gate.wait()
        return PWRITE(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", slowly)
    writer = FileWriter(tmp_path / "trace.json", background=True, queued=50_000)
    committed: list[int] = []

    def produce() -> None:
        for window in range(100):
            push_window(writer, window)
            committed.append(window)

    producer = threading.Thread(target=produce)
    producer.start()
    producer.join(timeout=1)

    waiting = len(committed)
    assert producer.is_alive()
    assert waiting * 100 * 3 * 8 <= 50_000 + 2 * 2_400
    gate.set()
    producer.join()
    writer.close()
    assert load(tmp_path / "trace.json").event_count == 10_000


def test_a_signal_handler_may_commit_while_its_thread_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    handled = iter([False, True, True])  # once while the first window is written

    def interrupting(descriptor: int, data: bytes, at: int) -> int:
        if not next(handled, True):
            push_window(writer, 1)
        return PWRITE(descriptor, data, at)

    writer = FileWriter(path, background=False)
    monkeypatch.setattr(os, "pwrite", interrupting)
    push_window(writer, 0)
    push_window(writer, 2)
    writer.close()

    assert sorted(load(path).table(Push)["seq"]) == list(range(300))
